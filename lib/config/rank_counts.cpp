// SPDX-License-Identifier: Apache-2.0
#include "config/rank_counts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::config {

std::string multiples_around(i64 n, i64 unit) {
    const i64 below = n / unit * unit;
    return below > 0 ? fmt::format("{} or {}", below, below + unit)
                     : fmt::format("{}", below + unit);
}

Ranks started_replicas(i64 n, const spec::ParallelConfig& parallel) {
    const i64 replica = parallel.ranks_per_replica();
    if (n % replica != 0) {
        usage_error(
            parallel.tp > 1 ? "--tensor-model-parallel-size" : "--pipeline-model-parallel-size",
            "the model needs a multiple of {} ranks, but {} started: start {} (mpirun -n, srun -n)",
            spec::replica_text(parallel),
            n == 1 ? "only 1 rank was" : fmt::format("{} ranks were", n),
            multiples_around(n, replica));
    }
    return {n / replica, replica};
}

Ranks replicas_of(i64 n, const spec::ParallelConfig& parallel) {
    const i64 replica = parallel.ranks_per_replica();
    constexpr i64 max_ranks = i64{1} << 24;  // bounds the time of a plan, which visits all ranks
    check_from_to("--world-size", n, 1, max_ranks);
    if (n % replica != 0) {
        usage_error("--world-size", "{} ranks are not a multiple of {} ranks = {}: use {}", n,
                    spec::replica_text(parallel), replica, multiples_around(n, replica));
    }
    return {n / replica, replica};
}

namespace {

// Returns a text such as "8 or 16". The first number is the largest number in `sorted` that is at
// most `wanted`, the second one the smallest number above `wanted`. Both are multiplied by
// `factor`.
std::string nearest(const std::vector<i64>& sorted, i64 wanted, i64 factor = 1) {
    const auto above = std::ranges::upper_bound(sorted, wanted);
    std::string text;
    if (above != sorted.begin()) text = fmt::format("{}", *(above - 1) * factor);
    if (above == sorted.end()) return text;
    return text + (text.empty() ? "" : " or ") + fmt::format("{}", *above * factor);
}

// Returns the text of the remedy. The remedy names rank counts and micro-batch sizes that divide
// all batches into whole micro-batches.
std::string remedy_text(const spec::BatchRamp& ramp, i64 micro_batch, const Ranks& ranks) {
    const i64 many = ramp.global_batch;
    const auto sizes = spec::fitting_dp_sizes(ramp, micro_batch, many);
    std::string text;
    if (!sizes.empty()) {
        text = fmt::format("{} data-parallel ranks ({} ranks in all)", nearest(sizes, ranks.dp),
                           nearest(sizes, ranks.dp, ranks.per_replica));
    }
    const auto micros = spec::fitting_dp_sizes(ramp, ranks.dp, many);
    if (!micros.empty()) {
        text += fmt::format("{}--micro-batch-size {}", text.empty() ? "" : ", or ",
                            nearest(micros, micro_batch));
    }
    return text.empty() ? "use other batch sizes" : "use " + text;
}

}  // namespace

std::vector<std::string> batch_problems(const spec::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks, i64 consumed) {
    const i64 unit = checked_mul(micro_batch, ranks.dp);
    const std::string units =
        fmt::format("micro batch {} x {} data-parallel ranks = {}", micro_batch, ranks.dp, unit);
    std::vector<std::string> problems;
    if (ramp.global_batch % unit != 0) {
        problems.push_back(fmt::format("--global-batch-size: {} is not a multiple of {}: use {}",
                                       ramp.global_batch, units,
                                       multiples_around(ramp.global_batch, unit)));
    }
    std::vector<spec::RampStep> stages = ramp.stages(consumed);
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
    problems.push_back(
        fmt::format("--rampup-batch-size: {} of its {} batch sizes ({}{}, from iteration {} to "
                    "iteration {}) are not a multiple of {}: {}",
                    stages.size(), n_stages, batches, stages.size() > 8 ? ", ..." : "",
                    stages.front().first_iteration, last.first_iteration + last.n_iterations - 1,
                    units, remedy_text(ramp, micro_batch, ranks)));
    return problems;
}

}  // namespace lm::config
