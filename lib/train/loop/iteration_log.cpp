// SPDX-License-Identifier: Apache-2.0
#include "train/loop/iteration_log.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/units.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {
namespace {

// Returns the number of iterations, after the first, in which --benchmark measures each operation.
// Measuring takes time itself, so --benchmark computes the throughput from the iterations in which
// it does not measure operations.
i64 timed_iterations(const RunConfig& config, const spec::Counters& start) {
    if (!config.action.benchmark) return 0;
    const i64 n_iterations = config.schedule.total_iterations() - start.iteration;
    return std::clamp<i64>((n_iterations - 1) / 2, 0, 3);
}

}  // namespace

IterationLog::IterationLog(const LoopParts& parts, const spec::Counters& start)
    : parts_(parts),
      n_timed_(timed_iterations(parts.config, start)),
      pace_(parts.config, start, parts.is_rank0()),
      comparison_(parts.world) {}

void IterationLog::begin(const spec::Counters& before, const TrainingLog::BatchSize& batch,
                         i64 run_iterations) {
    parts_.trainer.measure(is_timed(run_iterations) ? &benchmark_.op_times() : nullptr);
    parts_.recorder.step(before.iteration + 1);
    pace_.begin_iteration(before, parts_.config.trainer.micro_batches_of(batch.global_batch),
                          batch.global_batch * batch.seq_length);
}

void IterationLog::end(const spec::Counters& done, const TrainingLog::BatchSize& batch,
                       const StepResult& result, i64 run_iterations, double rate, double step_s,
                       bool keeps_weights) {
    pace_.end_iteration(step_s);
    // The first iteration includes warm-up, so its times are dropped.
    if (run_iterations == 0) {
        parts_.trainer.phases().consume();
        compared_ = 1;
    }
    if (keeps_weights) {
        parts_.log.skipped(done, rate, batch, result.finite);
        return;
    }
    const config::LoggingFlags& logging = parts_.config.logging;
    parts_.log.set_norms(
        logging.params_norm ? std::optional(parts_.trainer.params_norm()) : std::nullopt,
        logging.num_zeros ? std::optional(parts_.trainer.num_zeros()) : std::nullopt);
    parts_.log.add(done, rate, batch, result, step_s);
    benchmark_.add(batch, step_s, is_timed(run_iterations));
}

void IterationLog::log(const spec::Counters& done, double rate, i64 run_iterations) {
    parts_.log.log(done, rate);
    const i64 steps = run_iterations - std::exchange(compared_, run_iterations);
    if (steps == 0) return;
    const PhaseScope phase(parts_.trainer.phases(), StepPhase::check);
    parts_.log.phases(done.iteration, comparison_.add(parts_.trainer.phases().consume(), steps));
}

void IterationLog::dump_if_requested(const spec::Counters& done) {
    if (!parts_.dump_requested.exchange(false)) return;
    note(
        "SIGUSR2: after iteration {} of {}: {} samples, {} tokens, optimizer step {}, {} since the "
        "start of this run",
        done.iteration, parts_.config.schedule.total_iterations(), done.samples, done.tokens,
        parts_.trainer.optimizer_step(), human_duration(parts_.since_start.elapsed_s()));
}

void IterationLog::print_tables() {
    comparison_.print_table();
    if (parts_.config.action.benchmark && parts_.is_rank0())
        benchmark_.print(parts_.trainer, parts_.config, parts_.device);
}

}  // namespace lm::train
