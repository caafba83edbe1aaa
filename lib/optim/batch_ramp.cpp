// SPDX-License-Identifier: Apache-2.0
#include "optim/batch_ramp.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace lm::optim {
namespace {

constexpr std::string_view option = "--rampup-batch-size";

}  // namespace

BatchRamp::BatchRamp(i64 global_batch) : global_batch_(global_batch), start_(global_batch) {
    if (global_batch < 1) usage_error("--global-batch-size", "must be at least 1");
}

BatchRamp::BatchRamp(i64 global_batch, i64 start, i64 increment, i64 samples)
    : BatchRamp(global_batch) {
    if (start < 1) usage_error(option, "the first batch size must be at least 1, not {}", start);
    if (increment < 1) usage_error(option, "the increment must be at least 1, not {}", increment);
    if (samples < 0) usage_error(option, "the number of samples must not be negative");
    if (start > global_batch) {
        usage_error(option, "starts at {}, above --global-batch-size {}", start, global_batch);
    }
    const i64 way = global_batch - start;
    if (way % increment != 0) {
        usage_error(option, "from {} to {} is no multiple of {}: start at {} instead", start,
                    global_batch, increment, global_batch - way / increment * increment);
    }
    if (way == 0) return;
    start_ = start;
    increment_ = increment;
    samples_ = samples;
    samples_per_increment_ = static_cast<double>(samples) / static_cast<double>(way / increment);
}

i64 BatchRamp::at(i64 consumed) const {
    if (full(consumed)) return global_batch_;
    if (samples_ == 0) return global_batch_;
    const i64 steps =
        static_cast<i64>(static_cast<double>(consumed) / samples_per_increment_);  // truncates
    return std::min(start_ + steps * increment_, global_batch_);
}

std::vector<BatchRamp::Stage> BatchRamp::stages() const {
    std::vector<Stage> stages;
    i64 iteration = 1;
    i64 consumed = 0;
    while (true) {
        const i64 batch = at(consumed);
        if (stages.empty() || stages.back().batch != batch) {
            stages.push_back({batch, iteration, consumed});
        }
        if (full(consumed)) return stages;
        consumed += batch;
        ++iteration;
    }
}

void BatchRamp::check(i64 micro_batch, i64 dp_size) const {
    const i64 unit = checked_mul(micro_batch, dp_size);
    if (global_batch_ % unit != 0) {
        const i64 below = global_batch_ / unit * unit;
        usage_error("--global-batch-size",
                    "{} is no multiple of micro batch {} x {} data-parallel ranks = {}: {}{} would "
                    "work",
                    global_batch_, micro_batch, dp_size, unit,
                    below > 0 ? fmt::format("{} or ", below) : "", below + unit);
    }
    for (const Stage& stage : stages()) {
        if (stage.batch % unit == 0) continue;
        const i64 fits = std::gcd(std::gcd(start_, increment_), global_batch_) / micro_batch;
        usage_error(option,
                    "the batch of {} from iteration {} on is no multiple of micro batch {} x {} "
                    "data-parallel ranks = {}: start and increment in multiples of {}, or {}",
                    stage.batch, stage.first_iteration, micro_batch, dp_size, unit, unit,
                    fits > 0 ? fmt::format("a data-parallel size that divides {}", fits)
                             : std::string("a smaller micro batch"));
    }
}

}  // namespace lm::optim
