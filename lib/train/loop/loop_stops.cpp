// SPDX-License-Identifier: Apache-2.0
// How the training loop stops: the reasons that this rank sees, and the end of the run.
#include <algorithm>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "ckpt/history/lineage.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/signals.hpp"
#include "io/file.hpp"
#include "train/loop/loop.hpp"
#include "train/resume/pending_evaluation.hpp"

namespace lm::train {

bool TrainingLoop::stop_signal_received() {
    return cli::stop_requested() != cli::StopRequest::none;
}

bool TrainingLoop::present_on_rank0(const std::string& file) const {
    return is_rank0() && !file.empty() && io::exists(file);
}

// Returns whether this rank has a reason to end an evaluation. The reason is a signal, or on rank 0
// also the kill switch or a time limit.
bool TrainingLoop::must_stop() const {
    return should_end_evaluation(
               rules_, {.run_iterations = 1,
                        .elapsed_s = is_rank0() ? since_start_.elapsed_s() : 0.0,
                        .unix_s = is_rank0() ? unix_time_s() : 0.0,
                        .save_s = rules_.saves ? estimates_.save_s() : 0.0,
                        .job_end_unix_s = is_rank0() ? job_end_.unix_s() : 0.0,
                        .finished = config_.schedule.finished(progress_.done),
                        .stop_signal = stop_signal_received(),
                        .kill_switch = present_on_rank0(config_.stopping.kill_switch)}) != Stop::no;
}

// Saves after a stop has ended an evaluation; the resumed run repeats the evaluation. Returns the
// reason for the stop.
Stop TrainingLoop::stop_in_evaluation() {
    evaluation_pending_ = true;
    LoopState now = loop_state();
    now.run_iterations = std::max<i64>(now.run_iterations, 1);
    const Stop reason = should_end_evaluation(rules_, now);
    // The reason that ended the evaluation may not exist any more, for example when the kill switch
    // was removed. The run then stops as after a signal.
    const Stop stop = reason != Stop::no ? reason : Stop::signal;
    if (rules_.saves) save(stop);
    return stop;
}

// Finishes a pending save. Returns on rank 0 the newest step of --save that this run has saved or
// loaded, or nullopt if there is none. This step may differ from the step in the file `latest`,
// which this run may have found corrupt. Collective.
std::optional<i64> TrainingLoop::newest_step() {
    saver_.finish();
    if (!is_rank0() || !rules_.saves) return {};
    if (saver_.saved_iteration() >= 0) return saver_.saved_iteration();
    if (!progress_.loaded) return {};
    const ckpt::StepReference& loaded = progress_.loaded->step;
    try {
        // A later step belongs to another branch. The commands in the error message must not
        // abandon that step.
        const std::string& save = config_.checkpoints.save;
        if (ckpt::latest_step(save).value_or(0) > progress_.done.iteration) return {};
        for (const ckpt::StepEntry& step : ckpt::read_lineage(save).steps) {
            if (step.manifest && ckpt::tip_of(*step.manifest).step == loaded)
                return loaded.iteration;
        }
    } catch (const std::exception&) {
        // The commands in the error message then name no step.
    }
    return {};
}

// Saves the state from before the spike and ends the run.
void TrainingLoop::stop_at_spike() {
    if (rules_.saves) saver_.save_last(info_of_save(), false);
    throw JointError(Exit::self_stopped, guard_.spike_stop_text(progress_.done.iteration + 1));
}

// Records the last save and the reason for the stop in the status file and in the log. Returns
// `code`.
Exit TrainingLoop::stopping(const std::string& why, Exit code) {
    status_.saved(saver_.saved_iteration(), saver_.n_failures());
    status_.stopping(why);
    log_.stopped(progress_.done.iteration, code, why);
    return code;
}

// Reports why the run ends. Returns the exit code.
Exit TrainingLoop::leave(Stop stop) {
    pace_.finish();
    const i64 iteration = progress_.done.iteration;
    const i64 total = config_.schedule.total_iterations();
    if (evaluation_pending_ && rules_.saves && is_rank0()) {
        mark_pending_evaluation(config_.checkpoints.save, iteration);
    }
    if (run_iterations_ > 0 && guard_.memory().overflows_in_a_row >= run_iterations_) {
        note("fp16 gradient overflow in every iteration of this run ({}): no weight was changed{}",
             run_iterations_, config_.trainer.loss_scale.fixed ? ": use a lower --loss-scale" : "");
    }
    comparison_.print_table();
    if (config_.action.benchmark && is_rank0()) log_.benchmark(trainer_, config_, device_);
    if (stop != Stop::signal) {
        const std::string why =
            stop_note(stop, config_.stopping, config_.checkpoints, iteration, total);
        if (!why.empty()) note("{}", why);
        return stopping(why, exit_code(stop));
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

}  // namespace lm::train
