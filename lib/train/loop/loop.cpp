// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "device/op_times.hpp"
#include "io/file.hpp"
#include "train/loop/loop_setup.hpp"
#include "train/loop/shared_state.hpp"
#include "train/resume/pending_evaluation.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {

TrainingLoop::TrainingLoop(const LoopParts& parts, const Progress& start)
    : config_(parts.config),
      data_identities_(parts.data_identities),
      world_(parts.world),
      recorder_(parts.recorder),
      device_(parts.device),
      trainer_(parts.trainer),
      loader_(parts.loader),
      log_(parts.log),
      status_(parts.status),
      energy_(parts.energy),
      dump_requested_(parts.dump_requested),
      job_end_(parts.job_end),
      rules_(rules_of(parts.config, parts.data)),
      progress_(start),
      evaluation_pending_(parts.evaluation_pending),
      n_timed_(timed_iterations(parts.config, start.done)),
      batches_(parts.loader),
      pace_(parts.config, start.done, parts.world.rank() == 0),
      step_stop_(parts.config, parts.world),
      evaluation_(
          parts.config, parts.data, parts.world, parts.trainer, parts.log,
          [this] { return must_stop(); }, step_stop_),
      guard_(parts.config, parts.data, parts.world, parts.trainer, parts.log,
             [this] { return newest_step(); }),
      refused_(parts.refused),
      comparison_(parts.world),
      saver_({.config = parts.config,
              .world = parts.world,
              .recorder = parts.recorder,
              .trainer = parts.trainer,
              .log = parts.log}),
      estimates_(first_save_s(parts.config), forward_passes(parts.config, parts.data),
                 evaluation_tokens(parts.config)),
      since_start_(parts.since_start) {
    guard_.restore(start.guard);
}

void TrainingLoop::prepare_saves() {
    const optim::Counters& done = progress_.done;
    if (done.iteration > 0) status_.resumed(done.iteration, done.samples);
    if (!rules_.saves) return;
    saver_.prepare(progress_.loaded);
    status_.planned(coming_saves(config_, progress_.done.iteration));
    status_.claimed(saver_.generation().run_id, saver_.generation().number);
    log_.claimed(saver_.generation().run_id, saver_.generation().number);
}

Exit TrainingLoop::run() {
    try {
        return run_to_stop();
    } catch (const JointError& error) {
        // Commits a pending save, because the communication still works, and the save has the state
        // from before the error.
        if (error.code() == Exit::self_stopped) saver_.finish();
        throw;
    }
}

Exit TrainingLoop::run_to_stop() {
    const bool finished = config_.schedule.finished(progress_.done);
    if (finished && !evaluation_pending_) {
        note("the training is finished already, after iteration {}", progress_.done.iteration);
        return stopping("the training is finished already", Exit::done);
    }
    Stop stop = should_stop(rules_, loop_state());
    // Exit code 75 promises that a resumed run finds a saved state. So a run that has loaded no
    // state saves its initial state.
    const bool must_save = rules_.saves && exit_code(stop) == Exit::run_again;
    if (stop != Stop::no && must_save && !progress_.loaded) save(stop);
    if (evaluation_pending_ && !must_end_now(stop) &&
        !evaluate(rules_.evaluates, finished && rules_.tests)) {
        stop = stop_in_evaluation();
    }
    while (stop == Stop::no) {
        using Verdict = StepGuard::Verdict;
        const Verdict verdict = skip() ? Verdict::skip : iterate();
        if (verdict == Verdict::stop) stop_at_spike();
        if (verdict == Verdict::ended) {
            stop = Stop::signal;
            if (rules_.saves) save(stop);
            break;
        }
        if (verdict == Verdict::roll_back) {
            roll_back();
            continue;
        }
        recorder_.enter("log");
        if (dump_requested_.exchange(false)) dump();
        const LoopState now = loop_state();
        commit_if_written(now);
        stop = should_stop(rules_, now);
        if (should_log(rules_, now)) {
            log_.log(progress_.done, next_rates().lr);
            compare_ranks();
        }
        report_status(should_log(rules_, now));
        if (should_check_replicas(rules_, now)) check_replicas();
        if (should_save(rules_, now)) save(stop);
        if (should_save_locally(rules_, now)) save_locally();
        const bool validates = should_evaluate(rules_, now);
        evaluation_pending_ = !validates && evaluation_due(rules_, now);
        if (!evaluate(validates, should_test(rules_, now))) stop = stop_in_evaluation();
    }
    return leave(stop);
}

// Runs the next iteration and logs it. The training progress does not change when the verdict is
// stop, roll_back or ended.
StepGuard::Verdict TrainingLoop::iterate() {
    const bool timed = run_iterations_ >= 1 && run_iterations_ <= n_timed_;
    trainer_.measure(timed ? &log_.op_times() : nullptr);
    const Stopwatch watch;
    recorder_.step(progress_.done.iteration + 1);
    const TrainingLog::BatchSize batch = next_batch_size();
    trainer_.set_seq_length(batch.seq_length);
    batches_.set_seq_length(batch.seq_length);
    StepResult result;
    const StepGuard::Verdict verdict = step(batch, result);
    if (run_iterations_ == 0 && config_.trainer.cuda && is_rank0()) {
        note("{}", gpu_memory(config_.trainer, trainer_.grid().at, device_).str());
    }
    using Verdict = StepGuard::Verdict;
    if (verdict == Verdict::stop || verdict == Verdict::roll_back || verdict == Verdict::ended)
        return verdict;
    const i64 iteration = progress_.done.iteration + 1;
    if (verdict == Verdict::skip) refused_.add(guard_.refused(iteration, iteration, false));
    advance(verdict == Verdict::update || verdict == Verdict::skip);
    step_s_ = watch.elapsed_s();
    estimates_.add_step(step_s_, batch.tokens());
    pace_.end_iteration(step_s_);
    // The first iteration includes warm-up, so its times are dropped.
    if (run_iterations_ == 1) {
        trainer_.phases().consume();
        compared_ = 1;
    }
    if (verdict == Verdict::skip) {
        log_.skipped(progress_.done, next_rates().lr, batch, result.finite);
        return verdict;
    }
    const config::LoggingFlags& logging = config_.logging;
    log_.set_norms(logging.params_norm ? std::optional(trainer_.params_norm()) : std::nullopt,
                   logging.num_zeros ? std::optional(trainer_.num_zeros()) : std::nullopt);
    log_.add(progress_.done, next_rates().lr, batch, result, step_s_, timed);
    return verdict;
}

// Computes one training step with the next samples. Updates the weights if the verdict of the guard
// allows it.
StepGuard::Verdict TrainingLoop::step(const TrainingLog::BatchSize& batch, StepResult& result) {
    const i64 iteration = progress_.done.iteration + 1;
    guard_.begin(iteration);
    const i64 n_micro_batches = config_.trainer.micro_batches_of(batch.global_batch);
    pace_.begin_iteration(progress_.done, n_micro_batches, batch.global_batch * batch.seq_length);
    step_stop_.begin_iteration(longest_step_s_, n_micro_batches);
    const auto computed =
        trainer_.compute_gradients(batches_, n_micro_batches, [this] { return must_end_step(); });
    if (!computed) return StepGuard::Verdict::ended;
    result = *computed;
    const StepGuard::Verdict verdict = judge({iteration, progress_.done.samples, batch}, result);
    if (verdict != StepGuard::Verdict::update) return verdict;
    wait_for_originals();
    trainer_.update(result, next_rates());
    return verdict;
}

// Called before each micro-batch. Returns whether a stop signal ends the step. Collective.
bool TrainingLoop::must_end_step() {
    // Ranks wait here for slower ranks. Without this scope, the waiting would count as time of the
    // data.
    const PhaseScope phase(trainer_.phases(), StepPhase::other);
    if (step_stop_.ends_step()) return true;
    pace_.begin_micro_batch();
    return false;
}

StepGuard::Verdict TrainingLoop::judge(const StepGuard::Step& step, StepResult& result) {
    const PhaseScope phase(trainer_.phases(), StepPhase::check);
    return guard_.judge(step, result);
}

// Waits until a pending save no longer reads the state that the optimizer step changes.
void TrainingLoop::wait_for_originals() {
    const PhaseScope phase(trainer_.phases(), StepPhase::save);
    saver_.wait_for_originals();
}

// Loads the newest step of this run (load_newest()), and begins a branch at that step. The run then
// skips the batches after that step, up to and including the batch that the guard refused.
void TrainingLoop::roll_back() {
    saver_.finish();
    const i64 refused = progress_.done.iteration + 1;
    const i64 newest =
        std::max(saver_.saved_iteration(), progress_.loaded ? progress_.loaded->step.iteration : 0);
    // The range is written before the load as well as after it, because the load may be
    // interrupted.
    if (newest > 0) refused_.add(guard_.refused(newest + 1, refused, true));
    progress_ = load_newest(config_, data_identities_, progress_.done.iteration, world_, trainer_);
    prepare_saves();
    log_.resumed(progress_.done);
    log_.open_tensorboard(progress_.done);
    loader_.seek(progress_.done.samples);
    log_.restore(progress_.interval);
    refused_.add(guard_.refused(progress_.done.iteration + 1, refused, true));
    guard_.restore(progress_.guard);
}

// Returns the next iteration's global batch (batch ramp) and sequence length (curriculum).
TrainingLog::BatchSize TrainingLoop::next_batch_size() const {
    return {config_.schedule.batch(progress_.done), config_.schedule.seq_length(progress_.done)};
}

optim::UpdateRates TrainingLoop::next_rates() const {
    return config_.schedule.rates(progress_.stepped.samples, progress_.stepped.tokens);
}

// Counts the consumed batch. The learning rate advances only if `updated` is true. `updated` is
// false when the step was dropped: by an fp16 overflow, as in Megatron, or by --on-nan continue.
void TrainingLoop::advance(bool updated) {
    const optim::Counters before = progress_.done;
    progress_.done = config_.schedule.next(before);
    progress_.guard = guard_.memory();
    ++run_iterations_;
    if (!updated) return;
    progress_.stepped.samples += progress_.done.samples - before.samples;
    progress_.stepped.tokens += progress_.done.tokens - before.tokens;
    ++progress_.stepped.iteration;
}

// Skips the next iteration if it is in --skip-train-iteration-range or --iterations-to-skip, or if
// its batch was refused. The batch of a skipped iteration counts as consumed, but no step is made.
// Returns whether the iteration was skipped.
bool TrainingLoop::skip() {
    const i64 iteration = progress_.done.iteration + 1;
    const IterationRange* by_flag = skipped_range(rules_, iteration);
    const RefusedRange* refused = by_flag == nullptr ? refused_.find(iteration) : nullptr;
    if (by_flag == nullptr && refused == nullptr) return false;
    const bool rate_advances = by_flag == nullptr || by_flag->rate_advances;
    const i64 last = by_flag != nullptr ? by_flag->last : refused->last;
    if (refused != nullptr && iteration == last) guard_.skip_refused(*refused);
    const TrainingLog::BatchSize batch = next_batch_size();
    advance(rate_advances);
    loader_.seek(progress_.done.samples);
    const bool finite = refused == nullptr || refused->rolled_back || refused->spike;
    log_.skipped(progress_.done, next_rates().lr, batch, finite);
    if (iteration == last) {
        const i64 first = by_flag != nullptr ? by_flag->first : refused->first;
        note("skipped {}, up to sample {}: {}",
             first == last ? fmt::format("iteration {}", last)
                           : fmt::format("iterations {} to {}", first, last),
             progress_.done.samples,
             by_flag == nullptr ? (refused->rolled_back ? "a rollback refused the data"
                                                        : "an earlier start refused the data")
             : rate_advances    ? "--skip-train-iteration-range"
                                : "--iterations-to-skip");
    }
    return true;
}

// Returns the state of the loop, equal on all ranks. A signal to one rank, or a pending save on one
// rank, counts for all ranks. Rank 0 reads the switch files and the clock. Collective.
LoopState TrainingLoop::loop_state() {
    LoopState now =
        shared_state(world_, {.done = progress_.done,
                              .run_iterations = run_iterations_,
                              .elapsed_s = is_rank0() ? since_start_.elapsed_s() : 0.0,
                              .unix_s = is_rank0() ? unix_time_s() : 0.0,
                              .evaluation_s = estimates_.evaluation_s(),
                              .save_s = rules_.saves ? estimates_.save_s() : 0.0,
                              .step_s = estimates_.step_s(next_batch_size().tokens()),
                              .job_end_unix_s = is_rank0() ? job_end_.unix_s() : 0.0,
                              .finished = config_.schedule.finished(progress_.done),
                              .stop_signal = stop_signal_received(),
                              .kill_switch = present_on_rank0(config_.stopping.kill_switch),
                              .save_switch = present_on_rank0(config_.stopping.save_switch),
                              .writing = saver_.is_writing(),
                              .retaining = saver_.is_retaining()});
    longest_step_s_ = now.step_s;
    if (now.writing) now.save_s *= 2;  // the last save first waits for the pending save
    return now;
}

void TrainingLoop::report_status(bool logged) {
    status_.saved(saver_.saved_iteration(), saver_.n_failures());
    status_.iteration(progress_.done.iteration, progress_.done.samples, step_s_, logged);
}

// Prints the state of this rank. SIGUSR2 requests it.
void TrainingLoop::dump() const {
    note(
        "SIGUSR2: after iteration {} of {}: {} samples, {} tokens, optimizer step {}, {} since the "
        "start of this run",
        progress_.done.iteration, config_.schedule.total_iterations(), progress_.done.samples,
        progress_.done.tokens, trainer_.optimizer_step(), human_duration(since_start_.elapsed_s()));
}

// Compares the times of the ranks in the iterations since the last log line. Collective.
void TrainingLoop::compare_ranks() {
    const i64 steps = run_iterations_ - std::exchange(compared_, run_iterations_);
    if (steps == 0) return;
    const PhaseScope phase(trainer_.phases(), StepPhase::check);
    log_.phases(progress_.done.iteration, comparison_.add(trainer_.phases().consume(), steps));
}

void TrainingLoop::check_replicas() {
    recorder_.enter("check of replicas");
    trainer_.check_replicas();
}

// Runs the evaluations. Returns false when a stop has ended one of them.
bool TrainingLoop::evaluate(bool validates, bool tests) {
    if (!validates && !tests) return true;
    // A forward pass takes about a third of an iteration, so this expected time is enough for about
    // three validation sets.
    status_.busy("validating", static_cast<double>(config_.validation.iters) * step_s_);
    const bool marks = rules_.saves && is_rank0();
    if (marks) mark_pending_evaluation(config_.checkpoints.save, progress_.done.iteration);
    const Stopwatch watch;
    const i64 n_micro_batches = config_.trainer.micro_batches_of(next_batch_size().global_batch);
    evaluation_.expect_micro_batch_s(longest_step_s_ / static_cast<double>(n_micro_batches));
    if (validates && !evaluation_.validate(progress_.done)) return false;
    if (validates) {
        estimates_.add_evaluation(watch.elapsed_s());
        evaluation_.note_share(watch.elapsed_s(), since_start_.elapsed_s());
    }
    if (tests && !evaluation_.test(progress_.done)) return false;
    if (marks) end_pending_evaluation(config_.checkpoints.save);
    evaluation_pending_ = false;
    return true;
}

void TrainingLoop::commit_if_written(const LoopState& now) {
    const PhaseScope phase(trainer_.phases(), StepPhase::save);
    saver_.commit_if_written(now.writing, now.retaining);
    if (saver_.save_s()) estimates_.add_save(*saver_.save_s());
}

void TrainingLoop::save_locally() {
    const PhaseScope phase(trainer_.phases(), StepPhase::save);
    saver_.save_locally(info_of_save());
}

// Returns the fields of the manifest of a save of the present state.
ckpt::SaveInfo TrainingLoop::info_of_save() const {
    Progress at = progress_;
    at.interval = log_.unlogged();
    return save_info(config_, trainer_, at, data_identities_);
}

void TrainingLoop::save(Stop stop) {
    const PhaseScope phase(trainer_.phases(), StepPhase::save);
    status_.busy("saving", std::max(step_s_, estimates_.save_s()));
    if (stop == Stop::no) {
        saver_.save(info_of_save());
    } else {
        saver_.save_last(info_of_save(), must_end_now(stop));
    }
    if (energy_ != nullptr) energy_->write();
    if (!is_rank0() || config_.stopping.save_switch.empty()) return;
    std::error_code ignored;
    std::filesystem::remove(config_.stopping.save_switch, ignored);
}

}  // namespace lm::train
