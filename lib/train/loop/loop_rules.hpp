// SPDX-License-Identifier: Apache-2.0
// Decides what the training loop does after an iteration. All decisions are pure functions of the
// loop's state and of the flags, so tests need no model. The loop logs, then saves, then evaluates,
// then stops. The save comes before the evaluation, so that nothing is lost when the evaluation
// hangs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/checkpoint_flags.hpp"
#include "config/loop_flags.hpp"
#include "config/skip_ranges.hpp"
#include "spec/save_schedule.hpp"
#include "spec/schedule.hpp"

namespace lm::train {

struct LoopRules {
    i64 log_interval = 100;
    i64 eval_interval = 1000;
    bool evaluates = true;               // --eval-iters is not 0 and there is a validation set
    bool tests = false;                  // there is a test set, and --eval-iters is not 0
    bool saves = true;                   // --save is given
    std::vector<spec::SaveRange> saved;  // iterations with a save; the run also saves at its end
    std::optional<i64> local_save_interval;
    std::optional<i64> exit_interval;   // iterations of this run
    std::optional<i64> exit_iteration;  // iteration of the whole training
    std::optional<i64> exit_samples;    // consumed by the whole training
    std::optional<double> exit_duration_s;
    std::optional<double> before_job_end_s;  // --exit-before-limit; nullopt: off
    std::optional<i64> check_replicas;       // iterations between two checks
    std::vector<config::IterationRange>
        skip;  // iterations whose batch is consumed without training
};

// The state of the loop after an iteration.
struct LoopState {
    spec::Counters done;
    i64 run_iterations = 0;  // iterations of this process
    double elapsed_s = 0;    // since the start of train::run()
    double unix_s = 0;       // the time on rank 0
    // The expected times of an evaluation, of the last save, and of another step. While an earlier
    // save is being written, save_s is the time of two saves.
    double evaluation_s = 0, save_s = 0, step_s = 0;
    double job_end_unix_s = 0;  // the end of the batch job, from rank 0; 0: none
    bool finished = false;      // the schedule has ended
    bool stop_signal = false;
    bool kill_switch = false;  // the file --kill-switch-path exists
    bool save_switch = false;  // the file --save-switch-path exists
    bool writing = false;      // a rank writes files of a pending save
    bool retaining = false;    // a rank verifies or deletes steps for --save-retain
};

// Returns true when the replicas are compared after this iteration. The comparison comes before a
// save in the same iteration, so that no corrupt state is saved.
bool should_check_replicas(const LoopRules& rules, const LoopState& now);
bool should_log(const LoopRules& rules, const LoopState& now);
// Returns true at the save interval or schedule, with the save switch, and when the run stops.
bool should_save(const LoopRules& rules, const LoopState& now);
// Returns true at the interval of local saves. Returns false at a stop, because the run then saves
// to --save.
bool should_save_locally(const LoopRules& rules, const LoopState& now);
// Returns true at the evaluation interval, and at the end of the training.
bool evaluation_due(const LoopRules& rules, const LoopState& now);
// Returns true when an evaluation is due and may begin. Returns false when the run stops because of
// a signal or the kill switch. Before the end of the training, also returns false when the
// evaluation and the last save do not fit before the time limit.
bool should_evaluate(const LoopRules& rules, const LoopState& now);
// Returns true when the training has ended and a test set exists; the loop then tests after the
// last validation.
bool should_test(const LoopRules& rules, const LoopState& now);
// Returns the skipped range that contains `iteration`, or nullptr.
const config::IterationRange* skipped_range(const LoopRules& rules, i64 iteration);

enum class Stop {
    no,
    finished,
    exit_iteration,
    exit_samples,
    signal,
    exit_interval,
    duration,
    job_limit,
    kill_switch
};

// Returns Stop::duration (--exit-duration-in-mins) or Stop::job_limit (the end of the job) if a
// last save that begins after another `ahead_s` seconds would end after this limit. Otherwise, and
// before the first iteration, returns Stop::no.
Stop near_limit(const LoopRules& rules, const LoopState& now, double ahead_s);
// Returns the reason to end an evaluation in progress: the kill switch, a signal or a time limit;
// else Stop::no.
Stop should_end_evaluation(const LoopRules& rules, const LoopState& now);
// Returns the first reason to stop, in this order: the kill switch, reasons that end the whole
// training, reasons after which the run is resumed later. A time limit is a reason when the
// evaluation that is due, another step and the last save do not fit before it. Before the first
// iteration of a run, no time limit is a reason, so that each job of a series makes at least one
// iteration.
Stop should_stop(const LoopRules& rules, const LoopState& now);
// Returns true for a stop after which the process may be killed soon.
bool must_end_now(Stop stop);
Exit exit_code(Stop stop);
// Returns "stopped after iteration 10 of 60: rerun the same command with --load DIR to resume". DIR
// is the directory of --save; the text names no flag if --load has this directory already.
std::string stopped_text(const config::CheckpointFlags& checkpoints, i64 iteration, i64 total);
// Returns a note that names the flag that ended the run after `iteration` of `total`, and how to
// resume. Returns an empty text when no flag ended it.
std::string stop_note(Stop stop, const config::StoppingFlags& flags,
                      const config::CheckpointFlags& checkpoints, i64 iteration, i64 total);

}  // namespace lm::train
