// SPDX-License-Identifier: Apache-2.0
#include "train/step/spike_detector.hpp"

#include <algorithm>
#include <cmath>

namespace lm::train {
namespace {

// Returns the z-score of `value` relative to `values`. A standard deviation below
// `least_deviation` is replaced by `least_deviation`, so that the noise of a flat curve is never a
// spike.
template <typename Values, typename Get>
double z_score(double value, const Values& values, Get get, double least_deviation) {
    double sum = 0, squares = 0;
    for (const auto& each : values) {
        sum += get(each);
        squares += get(each) * get(each);
    }
    const auto n = static_cast<double>(values.size());
    const double mean = sum / n;
    const double deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
    return (value - mean) / std::max(deviation, least_deviation);
}

}  // namespace

std::optional<Spike> SpikeDetector::add(double loss, double gradient_norm) {
    const Step step{loss, std::log(std::max(gradient_norm, 1e-30))};
    if (in_a_row_ >= static_cast<i64>(least)) n_steps_ = 0;
    if (n_steps_ >= least) {
        const auto loss_of = [](const Step& each) { return each.loss; };
        const auto norm_of = [](const Step& each) { return each.log_norm; };
        const Spike spike{z_score(step.loss, recent(), loss_of, 0.01 * std::abs(loss)),
                          z_score(step.log_norm, recent(), norm_of, 0.1)};
        if (std::max(spike.loss_z, spike.norm_z) >= threshold) {
            ++in_a_row_;
            return spike;
        }
    }
    in_a_row_ = 0;
    push(step);
    return {};
}

void SpikeDetector::set_recent(std::span<const Step> steps) {
    n_steps_ = 0;
    for (const Step& step : steps) push(step);
}

void SpikeDetector::push(const Step& step) {
    if (n_steps_ == window) {
        std::move(steps_.begin() + 1, steps_.end(), steps_.begin());
        --n_steps_;
    }
    steps_[n_steps_++] = step;
}

}  // namespace lm::train
