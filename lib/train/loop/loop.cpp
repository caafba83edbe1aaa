// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/signals.hpp"
#include "train/loop/evaluation.hpp"
#include "train/loop/iteration_log.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/loop/saves.hpp"
#include "train/loop/step_guard.hpp"
#include "train/loop/stops.hpp"
#include "train/resume/pending_evaluation.hpp"
#include "train/step/batch_source.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {
namespace {

// Returns the rules of the loop. The end of the job is not a rule, because it can change during the
// run (LoopState::job_end_unix_s).
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

class TrainingLoop {
  public:
    TrainingLoop(const LoopParts& parts, const Progress& start, bool evaluation_pending,
                 RefusedIterations refused)
        : parts_(parts),
          config_(parts.config),
          trainer_(parts.trainer),
          rules_(rules_of(parts.config, parts.data)),
          progress_(start),
          evaluation_pending_(evaluation_pending),
          batches_(parts.loader),
          stops_(parts, rules_),
          iterations_(parts, start.done),
          evaluation_(parts, stops_),
          saves_(parts, rules_),
          guard_(parts.config, parts.data, parts.world, parts.trainer, parts.log,
                 [this] { return saves_.newest_step(progress_); }),
          refused_(std::move(refused)) {
        guard_.restore(start.guard);
    }

    TrainingLoop(const TrainingLoop&) = delete;
    TrainingLoop& operator=(const TrainingLoop&) = delete;

    // Calls Saver::prepare() in a run with --save. Collective.
    void prepare_saves() {
        const spec::Counters& done = progress_.done;
        if (done.iteration > 0) parts_.status.resumed(done.iteration, done.samples);
        saves_.prepare(progress_);
    }

    // Trains until a rule ends the run. Saves, evaluates and logs between iterations. Collective.
    Exit run() {
        try {
            return run_to_stop();
        } catch (const JointError& error) {
            // Commits a pending save, because the communication still works, and the save has the
            // state from before the error.
            if (error.code() == Exit::self_stopped) saves_.saver().finish();
            throw;
        }
    }

    const spec::Counters& done() const { return progress_.done; }

  private:
    Exit run_to_stop() {
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
            parts_.recorder.enter("log");
            iterations_.dump_if_requested(progress_.done);
            const LoopState now = loop_state();
            commit_if_written(now);
            stop = should_stop(rules_, now);
            if (should_log(rules_, now))
                iterations_.log(progress_.done, next_rates().lr, run_iterations_);
            report_status(should_log(rules_, now));
            if (should_check_replicas(rules_, now)) check_replicas();
            if (should_save(rules_, now)) save(stop);
            if (should_save_locally(rules_, now)) saves_.save_locally(progress_);
            const bool validates = should_evaluate(rules_, now);
            evaluation_pending_ = !validates && evaluation_due(rules_, now);
            if (!evaluate(validates, should_test(rules_, now))) stop = stop_in_evaluation();
        }
        return leave(stop);
    }

    // Runs the next iteration and logs it. The training progress does not change when the verdict
    // is stop, roll_back or ended.
    StepGuard::Verdict iterate() {
        const Stopwatch watch;
        const TrainingLog::BatchSize batch = next_batch_size();
        iterations_.begin(progress_.done, batch, run_iterations_);
        trainer_.set_seq_length(batch.seq_length);
        batches_.set_seq_length(batch.seq_length);
        StepResult result;
        const StepGuard::Verdict verdict = step(batch, result);
        if (run_iterations_ == 0 && config_.trainer.cuda && parts_.is_rank0()) {
            note("{}", gpu_memory(config_.trainer, trainer_.grid().at, parts_.device).str());
        }
        using Verdict = StepGuard::Verdict;
        if (verdict == Verdict::stop || verdict == Verdict::roll_back || verdict == Verdict::ended)
            return verdict;
        const i64 iteration = progress_.done.iteration + 1;
        if (verdict == Verdict::skip) refused_.add(guard_.refused(iteration, iteration, false));
        const i64 earlier = run_iterations_;
        advance(verdict == Verdict::update || verdict == Verdict::skip);
        step_s_ = watch.elapsed_s();
        stops_.estimates().add_step(step_s_, batch.tokens());
        iterations_.end(progress_.done, batch, result, earlier, next_rates().lr, step_s_,
                        verdict == Verdict::skip);
        return verdict;
    }

    // Computes one training step with the next samples. Updates the weights if the verdict of the
    // guard allows it.
    StepGuard::Verdict step(const TrainingLog::BatchSize& batch, StepResult& result) {
        const i64 iteration = progress_.done.iteration + 1;
        guard_.begin(iteration);
        const i64 n_micro_batches = config_.trainer.micro_batches_of(batch.global_batch);
        stops_.step().begin_iteration(stops_.step_s(), n_micro_batches);
        const auto computed = trainer_.compute_gradients(batches_, n_micro_batches,
                                                         [this] { return must_end_step(); });
        if (!computed) return StepGuard::Verdict::ended;
        result = *computed;
        const StepGuard::Verdict verdict =
            judge({iteration, progress_.done.samples, batch}, result);
        if (verdict != StepGuard::Verdict::update) return verdict;
        saves_.wait_for_originals();
        trainer_.update(result, next_rates());
        return verdict;
    }

    // Called before each micro-batch. Returns whether a stop signal ends the step. Collective.
    bool must_end_step() {
        // Ranks wait here for slower ranks. Without this scope, the waiting would count as time of
        // the data.
        const PhaseScope phase(trainer_.phases(), StepPhase::other);
        if (stops_.step().ends_step()) return true;
        iterations_.begin_micro_batch();
        return false;
    }

    StepGuard::Verdict judge(const StepGuard::Step& step, StepResult& result) {
        const PhaseScope phase(trainer_.phases(), StepPhase::check);
        return guard_.judge(step, result);
    }

    // Loads the newest step of this run (load_newest()), and begins a branch at that step. The run
    // then skips the batches after that step, up to and including the batch that the guard refused.
    void roll_back() {
        saves_.saver().finish();
        const i64 refused = progress_.done.iteration + 1;
        const i64 newest = std::max(saves_.saver().saved_iteration(),
                                    progress_.loaded ? progress_.loaded->step.iteration : 0);
        // The range is written before the load as well as after it, because the load may be
        // interrupted.
        if (newest > 0) refused_.add(guard_.refused(newest + 1, refused, true));
        progress_ = load_newest(config_, parts_.data_identities, progress_.done.iteration,
                                parts_.world, trainer_);
        prepare_saves();
        parts_.log.resumed(progress_.done);
        parts_.log.open_tensorboard(progress_.done);
        parts_.loader.seek(progress_.done.samples);
        parts_.log.restore(progress_.interval);
        refused_.add(guard_.refused(progress_.done.iteration + 1, refused, true));
        guard_.restore(progress_.guard);
    }

    // Saves the state from before the spike and ends the run.
    [[noreturn]] void stop_at_spike() {
        if (rules_.saves) saves_.save_before_error(progress_);
        throw JointError(Exit::self_stopped, guard_.spike_stop_text(progress_.done.iteration + 1));
    }

    // Skips the next iteration if it is in --skip-train-iteration-range or --iterations-to-skip, or
    // if its batch was refused. The batch of a skipped iteration counts as consumed, but no step is
    // made. Returns whether the iteration was skipped.
    bool skip() {
        const i64 iteration = progress_.done.iteration + 1;
        const config::IterationRange* by_flag = skipped_range(rules_, iteration);
        const RefusedRange* refused = by_flag == nullptr ? refused_.find(iteration) : nullptr;
        if (by_flag == nullptr && refused == nullptr) return false;
        const bool rate_advances = by_flag == nullptr || by_flag->rate_advances;
        const i64 last = by_flag != nullptr ? by_flag->last : refused->last;
        if (refused != nullptr && iteration == last) guard_.skip_refused(*refused);
        const TrainingLog::BatchSize batch = next_batch_size();
        advance(rate_advances);
        parts_.loader.seek(progress_.done.samples);
        const bool finite = refused == nullptr || refused->rolled_back || refused->spike;
        parts_.log.skipped(progress_.done, next_rates().lr, batch, finite);
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

    // Returns the next iteration's global batch (batch ramp) and sequence length (curriculum).
    TrainingLog::BatchSize next_batch_size() const {
        return {config_.schedule.batch(progress_.done),
                config_.schedule.seq_length(progress_.done)};
    }

    spec::UpdateRates next_rates() const {
        return config_.schedule.rates(progress_.stepped.samples, progress_.stepped.tokens);
    }

    // Counts the consumed batch. The learning rate advances only if `updated` is true. `updated` is
    // false when the step was dropped: by an fp16 overflow, as in Megatron, or by --on-nan
    // continue.
    void advance(bool updated) {
        const spec::Counters before = progress_.done;
        progress_.done = config_.schedule.next(before);
        progress_.guard = guard_.memory();
        ++run_iterations_;
        if (!updated) return;
        progress_.stepped.samples += progress_.done.samples - before.samples;
        progress_.stepped.tokens += progress_.done.tokens - before.tokens;
        ++progress_.stepped.iteration;
    }

    LoopState loop_state() {
        return stops_.state({.done = progress_.done,
                             .run_iterations = run_iterations_,
                             .writing = saves_.saver().is_writing(),
                             .retaining = saves_.saver().is_retaining()});
    }

    void report_saves() {
        const Saver& saver = saves_.saver();
        parts_.status.saved(saver.saved_iteration(), saver.n_failures());
        parts_.status.saved_locally(saver.local_iteration(), saver.n_local_failures());
    }

    void report_status(bool logged) {
        report_saves();
        parts_.status.iteration(progress_.done.iteration, progress_.done.samples, step_s_, logged);
    }

    void check_replicas() {
        parts_.recorder.enter("check of replicas");
        trainer_.check_replicas();
    }

    void commit_if_written(const LoopState& now) {
        saves_.commit_if_written(now);
        if (saves_.saver().save_s()) stops_.estimates().add_save(*saves_.saver().save_s());
    }

    void save(Stop stop) {
        saves_.save(progress_, stop, std::max(step_s_, stops_.estimates().save_s()));
    }

    // Runs the evaluations. Returns false when a stop has ended one of them.
    bool evaluate(bool validates, bool tests) {
        if (!validates && !tests) return true;
        // A forward pass takes about a third of an iteration, so this expected time is enough for
        // about three validation sets.
        parts_.status.busy("validating", static_cast<double>(config_.validation.iters) * step_s_);
        const bool marks = rules_.saves && parts_.is_rank0();
        if (marks) mark_pending_evaluation(config_.checkpoints.save, progress_.done.iteration);
        const Stopwatch watch;
        const i64 n_micro_batches =
            config_.trainer.micro_batches_of(next_batch_size().global_batch);
        evaluation_.expect_micro_batch_s(stops_.step_s() / static_cast<double>(n_micro_batches));
        if (validates && !evaluation_.validate(progress_.done)) return false;
        if (validates) {
            stops_.estimates().add_evaluation(watch.elapsed_s());
            evaluation_.note_share(watch.elapsed_s(), parts_.since_start.elapsed_s());
        }
        if (tests && !evaluation_.test(progress_.done)) return false;
        if (marks) end_pending_evaluation(config_.checkpoints.save);
        evaluation_pending_ = false;
        return true;
    }

    // Saves after a stop has ended an evaluation; the resumed run repeats the evaluation. Returns
    // the reason for the stop.
    Stop stop_in_evaluation() {
        evaluation_pending_ = true;
        LoopState now = loop_state();
        now.run_iterations = std::max<i64>(now.run_iterations, 1);
        const Stop reason = should_end_evaluation(rules_, now);
        // The reason that ended the evaluation may not exist any more, for example when the kill
        // switch was removed. The run then stops as after a signal.
        const Stop stop = reason != Stop::no ? reason : Stop::signal;
        if (rules_.saves) save(stop);
        return stop;
    }

    // Records the last save and the reason for the stop in the status file and in the log. Returns
    // `code`.
    Exit stopping(const std::string& why, Exit code) {
        report_saves();
        parts_.status.stopping(why);
        parts_.log.stopped(progress_.done.iteration, code, why);
        return code;
    }

    // Reports why the run ends. Returns the exit code.
    Exit leave(Stop stop) {
        iterations_.finish();
        const i64 iteration = progress_.done.iteration;
        const i64 total = config_.schedule.total_iterations();
        if (evaluation_pending_ && rules_.saves && parts_.is_rank0()) {
            mark_pending_evaluation(config_.checkpoints.save, iteration);
        }
        if (run_iterations_ > 0 && guard_.memory().overflows_in_a_row >= run_iterations_) {
            note(
                "fp16 gradient overflow in every iteration of this run ({}): no weight was "
                "changed{}",
                run_iterations_,
                config_.trainer.loss_scale.fixed ? ": use a lower --loss-scale" : "");
        }
        iterations_.print_tables();
        if (stop != Stop::signal) {
            const std::string why =
                stop_note(stop, config_.stopping, config_.checkpoints, iteration, total);
            if (!why.empty()) note("{}", why);
            // Exit code 75 promises that a resumed run finds a saved state.
            const bool final =
                !rules_.saves && (stop == Stop::exit_interval || stop == Stop::duration);
            return stopping(why, final ? Exit::done : exit_code(stop));
        }
        const char* const own = cli::stop_signal_name();
        const std::string name = own != nullptr ? own : "a signal to another rank";
        const std::string why =
            fmt::format("{}: {}", name, stopped_text(config_.checkpoints, iteration, total));
        // Exit code 75 promises that the training state was saved. Without --save the run fails.
        if (!rules_.saves) throw JointError(Exit::failure, why);
        note("{}", why);
        return stopping(why, exit_code(stop));
    }

    LoopParts parts_;
    const RunConfig& config_;
    Trainer& trainer_;
    LoopRules rules_;
    Progress progress_;
    i64 run_iterations_ = 0;
    double step_s_ = 0;        // time of the last iteration
    bool evaluation_pending_;  // the evaluation after progress_.done was due, but has not ended
    LoaderBatches batches_;
    Stops stops_;
    IterationLog iterations_;
    Evaluation evaluation_;
    Saves saves_;
    StepGuard guard_;
    RefusedIterations refused_;
};

}  // namespace

LoopEnd run_loop(const LoopParts& parts, const Progress& start, bool evaluation_pending,
                 RefusedIterations refused) {
    TrainingLoop loop(parts, start, evaluation_pending, std::move(refused));
    loop.prepare_saves();
    parts.log.started(start.done, parts.world.size());
    if (start.done.iteration > 0) parts.log.resumed(start.done);
    const Exit code = loop.run();
    return {code, loop.done().iteration > start.done.iteration};
}

}  // namespace lm::train
