// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop_setup.hpp"

#include <algorithm>

#include "cost/formulas.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {

LoopRules rules_of(const RunConfig& config, const data::DataSets& data) {
    const config::StoppingFlags& stopping = config.stopping;
    const bool benchmark = config.action.benchmark;
    const bool evaluates = config.validation.iters > 0 && !benchmark;
    LoopRules rules{.log_interval = config.logging.interval,
                    .eval_interval = config.validation.interval,
                    .evaluates = evaluates && !data.valid.empty(),
                    .tests = evaluates && !data.test.empty(),
                    .saves = !config.checkpoints.save.empty() && !benchmark,
                    .saved = config.saves.ranges,
                    .local_save_interval = config.checkpoints.local_save_interval,
                    .exit_interval = stopping.exit_interval,
                    .exit_iteration = stopping.exit_iteration,
                    .exit_samples = stopping.exit_samples,
                    .skip = config.skipped};
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const i64 n_ranks = parallel.n_ranks();
    if (config.rank_checks.check_replicas > 0 && n_ranks > 1) {
        rules.check_replicas = config.rank_checks.check_replicas;
    }
    if (stopping.exit_duration_min) rules.exit_duration_s = *stopping.exit_duration_min * 60.0;
    rules.before_job_end_s = config.saves.before_limit_s;
    return rules;
}

double first_save_s(const RunConfig& config) {
    const TrainerConfig& trainer = config.trainer;
    const auto bytes =
        static_cast<double>(cost::checkpoint_size(trainer.model, trainer.precision).total());
    const spec::ParallelConfig& parallel = trainer.parallel;
    // Creating and renaming the files takes this long on a busy file system, whatever their size.
    constexpr double least_s = 2;
    const auto n_ranks = static_cast<double>(parallel.n_ranks());
    return std::max(least_s, bytes / 50e6 / n_ranks);
}

double evaluation_tokens(const RunConfig& config) {
    return static_cast<double>(config.validation_batch() * config.trainer.model.seq_length);
}

ComingSaves coming_saves(const RunConfig& config, i64 start) {
    constexpr size_t most = 200;
    const TrainerConfig& trainer = config.trainer;
    return {.growing = growing_saves(config.saves, start, last_iteration(config), most),
            .step_bytes = cost::checkpoint_size(trainer.model, trainer.precision).total()};
}

double forward_passes(const RunConfig& config, const data::DataSets& data) {
    return static_cast<double>(config.validation.iters) * static_cast<double>(data.valid.size());
}

i64 timed_iterations(const RunConfig& config, const optim::Counters& start) {
    if (!config.action.benchmark) return 0;
    const i64 n_iterations = config.schedule.total_iterations() - start.iteration;
    return std::clamp<i64>((n_iterations - 1) / 2, 0, 3);
}

}  // namespace lm::train
