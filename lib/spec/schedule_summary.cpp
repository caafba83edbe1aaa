// SPDX-License-Identifier: Apache-2.0
#include "spec/schedule_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/shape.hpp"

namespace lm::spec {
namespace {

// Returns the counters after the first iteration at which the counter `what` (samples, or tokens
// for a decay by tokens) is at least `wanted`.
Counters reach(const Schedule& schedule, i64 Counters::*what, double wanted) {
    i64 low = 0;  // binary search: after(low) < wanted <= after(high)
    i64 high = schedule.total_iterations();
    while (high - low > 1) {
        const i64 middle = low + (high - low) / 2;
        const bool there = static_cast<double>(schedule.after(middle).*what) >= wanted;
        (there ? high : low) = middle;
    }
    return schedule.after(high);
}

}  // namespace

std::vector<RatePoint> key_rates(const Schedule& schedule) {
    const LearningRate& rate = schedule.learning_rate();
    const bool by_tokens = rate.decay_tokens > 0;
    std::vector<RatePoint> points;
    const auto add = [&](const char* what, const Counters& done) {
        if (!points.empty() && points.back().done == done) return;
        points.push_back({what, done, schedule.rate(done.samples, done.tokens)});
    };
    const auto add_at = [&](const char* what, i64 Counters::*axis, double wanted) {
        if (wanted > 0 && static_cast<double>(schedule.end().*axis) >= wanted) {
            add(what, reach(schedule, axis, wanted));
        }
    };
    add("start", {});
    if (rate.warmup_in_tokens)
        add_at("end of the warm-up", &Counters::tokens, rate.warmup_tokens);
    else
        add_at("end of the warm-up", &Counters::samples, rate.warmup_samples);
    if (rate.style != DecayStyle::constant) {
        const auto axis = by_tokens ? &Counters::tokens : &Counters::samples;
        const double begin = by_tokens ? rate.warmup_tokens : rate.warmup_samples;
        const double end = by_tokens ? rate.decay_tokens : rate.decay_samples;
        add_at("middle of the decay", axis, (begin + end) / 2);
        add_at("end of the decay", axis, end);
    }
    add("end", schedule.end());
    return points;
}

std::vector<std::string> describe_ramp(const Schedule& schedule) {
    const std::vector<RampStep> stages = schedule.ramp().stages();
    std::vector<std::string> lines;
    if (stages.size() < 2) return lines;
    for (size_t k = 0; k < stages.size(); ++k) {
        if (stages[k].first_iteration > schedule.total_iterations()) break;
        const i64 last =
            k + 1 < stages.size() ? stages[k + 1].first_iteration - 1 : schedule.total_iterations();
        lines.push_back(fmt::format("iterations {} to {}: batch {}, from sample {}",
                                    stages[k].first_iteration,
                                    std::min(last, schedule.total_iterations()), stages[k].batch,
                                    stages[k].consumed_before));
    }
    return lines;
}

i64 megatron_validations(const Schedule& schedule, i64 eval_interval) {
    return schedule.total_iterations() / std::max<i64>(1, eval_interval) + 1;
}

}  // namespace lm::spec
