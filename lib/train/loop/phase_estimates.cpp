// SPDX-License-Identifier: Apache-2.0
#include "train/loop/phase_estimates.hpp"

#include <algorithm>

namespace lm::train {
namespace {

// Steps and evaluations of one run differ by a few percent. Saves differ more, because they share
// the file system with other jobs.
constexpr double step_margin = 1.2;
constexpr double evaluation_margin = 1.2;
constexpr double save_margin = 1.5;

}  // namespace

void PhaseEstimates::add_step(double s, double tokens) {
    if (n_steps_ == 1) steps_[0] = {};
    steps_[n_steps_ % steps_.size()] = {s, tokens};
    ++n_steps_;
}

double PhaseEstimates::step_s(double next_tokens) const {
    double longest_s = 0;
    for (const Step& step : steps_) {
        longest_s = std::max(longest_s, step.s * std::max(1.0, next_tokens / step.tokens));
    }
    return step_margin * longest_s;
}

double PhaseEstimates::evaluation_s() const {
    if (evaluation_s_) return evaluation_margin * *evaluation_s_;
    return forward_passes_ * step_s(evaluation_tokens_) / 2;
}

double PhaseEstimates::save_s() const {
    return save_margin * save_s_.value_or(first_save_s_);
}

}  // namespace lm::train
