// SPDX-License-Identifier: Apache-2.0
// Decides what the training loop does after an iteration, by pure functions of its state and of the
// flags, so that tests need no model. The order is: log, save, evaluate, stop. The save comes
// before the evaluation, so that nothing is lost when the evaluation hangs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/output_flags.hpp"
#include "optim/schedule.hpp"
#include "spec/save_schedule.hpp"

namespace lm::train {

// The iterations `first` to `last`, both included.
struct IterationRange {
    i64 first = 0;
    i64 last = 0;
};

// Parses --skip-train-iteration-range A-B C-D into sorted ranges. Adjacent ranges are joined.
// Throws Error(usage).
std::vector<IterationRange> parse_skip_ranges(const std::vector<std::string>& texts);

// The number of overflows in a row after which the training stops. A scale can be halved 127 times
// from the largest number of fp32 down to 1, so a longer series has another cause than the scale.
constexpr i64 most_skipped_in_a_row = 150;

struct LoopRules {
    i64 log_interval = 100;
    i64 eval_interval = 1000;
    bool evaluates = true;  // --eval-iters is not 0 and there is a validation set
    bool tests = false;     // there is a test set, and --eval-iters is not 0
    bool saves = true;      // --save is given
    std::optional<i64> save_interval;
    std::vector<spec::SaveRange> save_schedule;
    std::optional<i64> exit_interval;   // iterations of this run
    std::optional<i64> exit_iteration;  // iteration of the whole training
    std::optional<i64> exit_samples;    // consumed by the whole training
    std::optional<double> exit_duration_s;
    std::optional<i64> check_replicas;  // iterations between two checks
    std::vector<IterationRange> skip;   // iterations whose batch is consumed without training
};

// The state of the loop after an iteration.
struct LoopState {
    optim::Counters done;
    i64 run_iterations = 0;  // iterations of this process
    double elapsed_s = 0;    // since the process started
    bool finished = false;   // the schedule has ended
    bool stop_signal = false;
    bool kill_switch = false;  // the file --kill-switch-path exists
    bool save_switch = false;  // the file --save-switch-path exists
    bool writing = false;      // a rank writes files of a save in flight
};

// Returns true when the replicas are compared after this iteration. The comparison comes before a
// save in the same iteration, so that no damaged state is saved.
bool should_check_replicas(const LoopRules& rules, const LoopState& now);
bool should_log(const LoopRules& rules, const LoopState& now);
// Returns true at the save interval or schedule, and when the run stops.
bool should_save(const LoopRules& rules, const LoopState& now);
// Returns false when the run stops because of a signal, its duration or the kill switch.
bool should_evaluate(const LoopRules& rules, const LoopState& now);
// Returns true once: at the end of the training, after the last validation.
bool should_test(const LoopRules& rules, const LoopState& now);
// Returns the skipped range that contains `iteration`, or nullptr.
const IterationRange* skipped_range(const LoopRules& rules, i64 iteration);

enum class Stop {
    no,
    finished,
    exit_iteration,
    exit_samples,
    signal,
    exit_interval,
    duration,
    kill_switch
};

// Returns the first reason to stop that holds. The order is: the kill switch, reasons that end the
// whole training, reasons to run the same command again. The loop calls it before the first
// iteration too, where the duration does not end the run: a series of jobs with --exit-duration
// cannot restart forever without progress.
Stop should_stop(const LoopRules& rules, const LoopState& now);
// Returns true for a stop after which the process may be killed soon.
bool time_is_over(Stop stop);
Exit exit_code(Stop stop);
// Returns "stopped after iteration 10 of 60: rerun the same command with --load to resume".
std::string stopped_text(i64 iteration, i64 total);
// Returns a note that names the flag that ended the run after `iteration` of `total`, and how to
// resume. Returns an empty text when no flag ended it.
std::string stop_note(Stop stop, const config::StoppingFlags& flags, i64 iteration, i64 total);

}  // namespace lm::train
