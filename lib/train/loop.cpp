// SPDX-License-Identifier: Apache-2.0
#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "device/op_times.hpp"
#include "io/file.hpp"
#include "train/gpu_memory.hpp"

namespace lm::train {
namespace {

LoopRules rules_of(const RunConfig& config, const data::DataSets& data) {
    const config::CheckpointFlags& checkpoints = config.checkpoints;
    const config::StoppingFlags& stopping = config.stopping;
    const bool benchmark = config.action.benchmark;
    const bool evaluates = config.validation.iters > 0 && !benchmark;
    LoopRules rules{.log_interval = config.logging.interval,
                    .eval_interval = config.validation.interval,
                    .evaluates = evaluates && !data.valid.empty(),
                    .tests = evaluates && !data.test.empty(),
                    .saves = !checkpoints.save.empty() && !benchmark,
                    .save_interval = checkpoints.save_interval,
                    .save_schedule = checkpoints.save_schedule.empty()
                                         ? std::vector<spec::SaveRange>{}
                                         : spec::parse_save_schedule(checkpoints.save_schedule),
                    .exit_interval = stopping.exit_interval,
                    .exit_iteration = stopping.exit_iteration,
                    .exit_samples = stopping.exit_samples,
                    .check_replicas = config.rank_checks.check_replicas,
                    .skip = parse_skip_ranges(stopping.skip_ranges)};
    if (stopping.exit_duration_min) rules.exit_duration_s = *stopping.exit_duration_min * 60.0;
    return rules;
}

// Returns the number of iterations, after the first, in which --benchmark measures each operation.
// The throughput is computed from the other iterations, because measuring takes time itself.
i64 timed_iterations(const RunConfig& config, const optim::Counters& start) {
    if (!config.action.benchmark) return 0;
    const i64 n_iterations = config.schedule.total_iterations() - start.iteration;
    return std::clamp<i64>((n_iterations - 1) / 2, 0, 3);
}

// Returns a NaN without its sign, which depends on the instruction set.
double without_sign(double value) {
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

double stop_signal_received() {
    return cli::stop_requested() != cli::StopRequest::none ? 1.0 : 0.0;
}

// Replaces each value by its maximum over all ranks. Collective.
void max_over_ranks(comm::Group& world, std::span<double> values) {
    world.all_reduce({values.data(), DType::fp64, {static_cast<i64>(values.size())}},
                     comm::Reduction::max);
}

// Throws the error that ends the training. The step has changed no weight, so a repeated step would
// have the same result. A person has to decide.
[[noreturn]] void stop_at_non_finite(i64 iteration, const StepResult& result) {
    throw JointError(
        Exit::self_stopped,
        fmt::format("iteration {}: loss {} and gradient norm {} are not both finite: no weight "
                    "was changed: resume from an earlier checkpoint with a lower --lr or other "
                    "data",
                    iteration, without_sign(result.loss), without_sign(result.gradient_norm)));
}

}  // namespace

TrainingLoop::TrainingLoop(const LoopParts& parts, const Progress& start)
    : config_(parts.config),
      world_(parts.world),
      recorder_(parts.recorder),
      device_(parts.device),
      trainer_(parts.trainer),
      loader_(parts.loader),
      log_(parts.log),
      dump_requested_(parts.dump_requested),
      rules_(rules_of(parts.config, parts.data)),
      progress_(start),
      n_timed_(timed_iterations(parts.config, start.done)),
      batches_(parts.loader),
      evaluation_(parts.config, parts.data, parts.world, parts.trainer, parts.log),
      saver_({.config = parts.config,
              .data_identities = parts.data_identities,
              .world = parts.world,
              .recorder = parts.recorder,
              .trainer = parts.trainer,
              .log = parts.log}) {}

void TrainingLoop::prepare_saves() {
    if (rules_.saves) saver_.prepare(progress_.loaded);
}

Exit TrainingLoop::run() {
    try {
        return run_to_stop();
    } catch (const JointError& error) {
        // The groups still work, and the save in flight has a state from before the error: commits
        // it.
        if (error.code() == Exit::self_stopped) saver_.finish();
        throw;
    }
}

Exit TrainingLoop::run_to_stop() {
    if (config_.schedule.finished(progress_.done)) {
        note("the training is finished already, after iteration {}", progress_.done.iteration);
        return Exit::done;
    }
    Stop stop = should_stop(rules_, loop_state());
    while (stop == Stop::no) {
        if (!skip()) iterate();
        recorder_.enter("log");
        if (dump_requested_.exchange(false)) dump();
        const LoopState now = loop_state();
        saver_.progress(now.writing);
        stop = should_stop(rules_, now);
        if (should_log(rules_, now)) log_.log(progress_.done, next_rate());
        if (should_check_replicas(rules_, now)) check_replicas();
        if (should_save(rules_, now)) save(stop);
        const bool complete = (!should_evaluate(rules_, now) || evaluation_.validate(now.done)) &&
                              (!should_test(rules_, now) || evaluation_.test(now.done));
        if (complete || stop != Stop::no) continue;
        // A signal has ended the evaluation.
        stop = Stop::signal;
        if (rules_.saves) save(stop);
    }
    return leave(stop);
}

void TrainingLoop::iterate() {
    const bool timed = run_iterations_ >= 1 && run_iterations_ <= n_timed_;
    trainer_.measure(timed ? &log_.op_times() : nullptr);
    const Stopwatch watch;
    recorder_.step(progress_.done.iteration + 1);
    const TrainingLog::BatchSize batch = next_batch_size();
    trainer_.set_seq_length(batch.seq_length);
    batches_.set_seq_length(batch.seq_length);
    const StepResult result = step(batch.global_batch);
    if (run_iterations_ == 0 && config_.trainer.cuda && is_rank0()) {
        note("{}", gpu_memory(config_.trainer, trainer_.grid().at, device_).str());
    }
    check_finite(progress_.done.iteration + 1, result);
    advance(result.finite);
    log_.add(progress_.done, next_rate(), batch, result, watch.elapsed_s(), timed);
}

// Makes one training step with the next `global_batch` samples.
StepResult TrainingLoop::step(i64 global_batch) {
    const StepResult result =
        trainer_.compute_gradients(batches_, config_.trainer.micro_batches_of(global_batch));
    if (!result.finite) return result;
    saver_.wait_for_originals();  // a save in flight may still read the state that changes now
    trainer_.update(result, next_rate());
    return result;
}

// Returns the next iteration's global batch (batch ramp) and sequence length (curriculum).
TrainingLog::BatchSize TrainingLoop::next_batch_size() const {
    return {config_.schedule.batch(progress_.done), config_.schedule.seq_length(progress_.done)};
}

double TrainingLoop::next_rate() const {
    return config_.schedule.rate(progress_.stepped.samples, progress_.stepped.tokens);
}

// Counts the consumed batch. As in Megatron, the learning rate does not advance at a step that was
// dropped because fp16 gradients overflowed.
void TrainingLoop::advance(bool updated) {
    const optim::Counters before = progress_.done;
    progress_.done = config_.schedule.next(before);
    ++run_iterations_;
    if (!updated) return;
    progress_.stepped.samples += progress_.done.samples - before.samples;
    progress_.stepped.tokens += progress_.done.tokens - before.tokens;
    ++progress_.stepped.iteration;
}

// Skips the next iteration's batch if it is in --skip-train-iteration-range: the batch counts as
// consumed and the learning rate advances, but no step is made. Returns whether it was skipped.
bool TrainingLoop::skip() {
    const IterationRange* range = skipped_range(rules_, progress_.done.iteration + 1);
    if (range == nullptr) return false;
    const TrainingLog::BatchSize batch = next_batch_size();
    advance(true);
    loader_.seek(progress_.done.samples);
    log_.skipped(progress_.done, next_rate(), batch);
    if (progress_.done.iteration == range->last) {
        note("--skip-train-iteration-range: skipped iterations {} to {}, up to sample {}",
             range->first, range->last, progress_.done.samples);
    }
    return true;
}

// Ends the training when the loss or the gradient is not finite. fp16 gradients that overflow are
// an exception: the loss scale decreases until they no longer do.
void TrainingLoop::check_finite(i64 iteration, const StepResult& result) {
    skipped_in_a_row_ = result.finite ? 0 : skipped_in_a_row_ + 1;
    if (result.finite) return;
    const bool fp16 = config_.trainer.precision.weights == DType::fp16;
    if (!fp16 || !std::isfinite(result.loss)) stop_at_non_finite(iteration, result);
    if (skipped_in_a_row_ < most_skipped_in_a_row) return;
    throw JointError(
        Exit::self_stopped,
        fmt::format("iteration {}: the gradients of {} steps in a row overflowed fp16, the last "
                    "with a loss scale of {}: use --bf16, {}or resume from an earlier checkpoint "
                    "with a lower --lr or other data",
                    iteration, skipped_in_a_row_, result.loss_scale,
                    config_.trainer.loss_scale.fixed ? "a lower --loss-scale, " : ""));
}

// Returns the same state on all ranks: signals to any rank, saves that any rank is writing, and the
// files and the time that rank 0 sees. Collective.
LoopState TrainingLoop::loop_state() {
    const auto present = [this](const std::string& file) {
        return is_rank0() && !file.empty() && io::exists(file) ? 1.0 : 0.0;
    };
    std::array<double, 5> seen = {stop_signal_received(), present(config_.stopping.kill_switch),
                                  present(config_.stopping.save_switch),
                                  is_rank0() ? since_start_.elapsed_s() : 0.0,
                                  saver_.is_writing() ? 1.0 : 0.0};
    max_over_ranks(world_, seen);
    return {.done = progress_.done,
            .run_iterations = run_iterations_,
            .elapsed_s = seen[3],
            .finished = config_.schedule.finished(progress_.done),
            .stop_signal = seen[0] != 0,
            .kill_switch = seen[1] != 0,
            .save_switch = seen[2] != 0,
            .writing = seen[4] != 0};
}

// Prints the rank's state, as SIGUSR2 requests.
void TrainingLoop::dump() const {
    note(
        "SIGUSR2: after iteration {} of {}: {} samples, {} tokens, optimizer step {}, {} in this "
        "run",
        progress_.done.iteration, config_.schedule.total_iterations(), progress_.done.samples,
        progress_.done.tokens, trainer_.optimizer_step(), human_duration(since_start_.elapsed_s()));
}

void TrainingLoop::check_replicas() {
    recorder_.enter("check of replicas");
    trainer_.check_replicas();
}

void TrainingLoop::save(Stop stop) {
    if (stop == Stop::no) {
        saver_.save(progress_);
    } else {
        saver_.save_last(progress_, time_is_over(stop));
    }
    if (!is_rank0() || config_.stopping.save_switch.empty()) return;
    std::error_code ignored;
    std::filesystem::remove(config_.stopping.save_switch, ignored);
}

// Reports why the run ends. Returns the exit code.
Exit TrainingLoop::leave(Stop stop) {
    const i64 iteration = progress_.done.iteration;
    const i64 total = config_.schedule.total_iterations();
    if (run_iterations_ > 0 && skipped_in_a_row_ == run_iterations_) {
        note("all {} iterations skipped: fp16 gradient overflow: no weight was changed{}",
             run_iterations_, config_.trainer.loss_scale.fixed ? ": use a lower --loss-scale" : "");
    }
    if (config_.action.benchmark && is_rank0()) log_.benchmark(trainer_, config_, device_);
    if (stop != Stop::signal) {
        const std::string why = stop_note(stop, config_.stopping, iteration, total);
        if (!why.empty()) note("{}", why);
        return exit_code(stop);
    }
    const char* const own = cli::stop_signal_name();
    const std::string name = own != nullptr ? own : "a signal to another rank";
    // Exit code 75 states that the training state was saved.
    if (!rules_.saves) {
        throw JointError(
            Exit::failure,
            fmt::format(
                "{}: stopped after iteration {}: nothing was saved, since --save is not given",
                name, iteration));
    }
    note("{}: {}", name, stopped_text(iteration, total));
    return exit_code(stop);
}

}  // namespace lm::train
