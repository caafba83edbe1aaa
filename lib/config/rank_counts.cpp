// SPDX-License-Identifier: Apache-2.0
#include "config/rank_counts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::config {

std::string multiples_around(i64 n, i64 unit) {
    const i64 below = n / unit * unit;
    return below > 0 ? fmt::format("{} or {}", below, below + unit)
                     : fmt::format("{}", below + unit);
}

Ranks started_replicas(i64 n, i64 tp, i64 pp) {
    const i64 replica = checked_mul(tp, pp);
    if (n % replica != 0) {
        usage_error(
            tp > 1 ? "--tensor-model-parallel-size" : "--pipeline-model-parallel-size",
            "{} tensor x {} pipeline ranks hold one model, but {} ranks were started: start "
            "{} (mpirun -n, srun -n)",
            tp, pp, n, multiples_around(n, replica));
    }
    return {n / replica, replica};
}

Ranks replicas_of(i64 n, i64 tp, i64 pp) {
    const i64 replica = checked_mul(tp, pp);
    constexpr i64 most_ranks = i64{1} << 24;  // a plan looks at every rank
    if (n < 1 || n > most_ranks) {
        usage_error("--world-size", "must be at least 1 and at most {}, but is {}", most_ranks, n);
    }
    if (n % replica != 0) {
        usage_error("--world-size",
                    "{} ranks are no multiple of {} tensor x {} pipeline ranks = {}: {} would work",
                    n, tp, pp, replica, multiples_around(n, replica));
    }
    return {n / replica, replica};
}

namespace {

// "8 or 16", the largest one below `wanted` and the smallest one above it.
std::string nearest(const std::vector<i64>& sorted, i64 wanted, i64 factor = 1) {
    const auto above = std::ranges::upper_bound(sorted, wanted);
    std::string text;
    if (above != sorted.begin()) text = fmt::format("{}", *(above - 1) * factor);
    if (above == sorted.end()) return text;
    return text + (text.empty() ? "" : " or ") + fmt::format("{}", *above * factor);
}

// Rank counts and micro-batches with which every batch of the run is whole.
std::string what_would_work(const spec::BatchRamp& ramp, i64 micro_batch, const Ranks& ranks) {
    const i64 many = ramp.global_batch;
    const auto sizes = spec::fitting_dp_sizes(ramp, micro_batch, many);
    std::string text;
    if (!sizes.empty()) {
        text = fmt::format("{} data-parallel ranks ({} ranks)", nearest(sizes, ranks.dp),
                           nearest(sizes, ranks.dp, ranks.per_replica));
    }
    const auto micros = spec::fitting_dp_sizes(ramp, ranks.dp, many);
    if (!micros.empty()) {
        text += fmt::format("{}--micro-batch-size {}", text.empty() ? "" : ", or ",
                            nearest(micros, micro_batch));
    }
    return text.empty() ? "other batches are needed" : text + " would work";
}

}  // namespace

std::vector<std::string> batch_problems(const spec::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks) {
    const i64 unit = checked_mul(micro_batch, ranks.dp);
    const std::string units =
        fmt::format("micro batch {} x {} data-parallel ranks = {}", micro_batch, ranks.dp, unit);
    std::vector<std::string> problems;
    if (ramp.global_batch % unit != 0) {
        problems.push_back(
            fmt::format("--global-batch-size: {} is no multiple of {}: {} would work",
                        ramp.global_batch, units, multiples_around(ramp.global_batch, unit)));
    }
    std::vector<spec::RampStep> stages = ramp.stages();
    const size_t n_stages = stages.size();
    if (n_stages < 2) return problems;
    stages.pop_back();  // the full batch
    std::erase_if(stages, [unit](const spec::RampStep& stage) { return stage.batch % unit == 0; });
    if (stages.empty()) return problems;
    const spec::RampStep& last = stages.back();
    std::string batches;
    for (size_t k = 0; k < stages.size() && k < 8; ++k) {
        batches += fmt::format("{}{}", k == 0 ? "" : ", ", stages[k].batch);
    }
    problems.push_back(fmt::format(
        "--rampup-batch-size: {} of its {} batches are no multiple of {}: {}{}, from iteration {} "
        "to iteration {}: {}",
        stages.size(), n_stages, units, batches, stages.size() > 8 ? ", ..." : "",
        stages.front().first_iteration, last.first_iteration + last.n_iterations - 1,
        what_would_work(ramp, micro_batch, ranks)));
    return problems;
}

}  // namespace lm::config
