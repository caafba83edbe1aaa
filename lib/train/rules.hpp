// SPDX-License-Identifier: Apache-2.0
// What the loop does after an iteration, as pure functions of where the run is and what the flags
// say: tested without a model. Order in the loop: log, save, evaluate, stop. A save comes before an
// evaluation, so that a hang in the latter loses nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/output_flags.hpp"
#include "optim/schedule.hpp"
#include "spec/save_schedule.hpp"

namespace lm::train {

// Iterations first to last, both included.
struct IterationRange {
    i64 first = 0;
    i64 last = 0;
};

// --skip-train-iteration-range A-B C-D: sorted, ranges that touch joined. Throws Error(usage).
std::vector<IterationRange> parse_skip_ranges(const std::vector<std::string>& texts);

// From the largest scale that fp32 holds down to 1 there are 127 halvings: a training whose
// gradients overflow so often in a row has another problem.
constexpr i64 most_skipped_in_a_row = 150;

struct LoopRules {
    i64 log_interval = 100;
    i64 eval_interval = 1000;
    bool evaluates = true;  // --eval-iters is not 0 and there is a validation set
    bool tests = false;     // the same for a test set
    bool saves = true;      // --save is given
    std::optional<i64> save_interval;
    std::vector<spec::SaveRange> save_schedule;
    std::optional<i64> exit_interval;   // iterations of this run
    std::optional<i64> exit_iteration;  // absolute
    std::optional<i64> exit_samples;    // consumed, absolute
    std::optional<double> exit_duration_s;
    std::optional<i64> check_replicas;
    std::vector<IterationRange> skip;  // batches of these are taken but not trained on
};

// Where a run is after an iteration.
struct Situation {
    optim::Counters done;
    i64 run_iterations = 0;  // of this process
    double elapsed_s = 0;    // since it started
    bool finished = false;   // the schedule's end
    bool stop_signal = false;
    bool kill_switch = false;  // the file exists
    bool save_switch = false;
};

// Copies on several ranks are compared before the save of the same iteration, which must not keep
// what is damaged.
bool should_check_replicas(const LoopRules& rules, const Situation& now);
bool should_log(const LoopRules& rules, const Situation& now);
// On its own account; a run that stops saves as well.
bool should_save(const LoopRules& rules, const Situation& now);
// Not when the run stops because its time is over: signal, duration, kill switch.
bool should_evaluate(const LoopRules& rules, const Situation& now);
// Once, when the training has come to its end and the last validation is done.
bool should_test(const LoopRules& rules, const Situation& now);
// The range that holds `iteration`, or nullptr.
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

// The first reason that holds, those that end the whole training before those that ask to be run
// again, the kill switch before all. Also asked before the first iteration: all but the duration
// may hold then (each run makes an iteration, so that a job array cannot spin without progress).
Stop should_stop(const LoopRules& rules, const Situation& now);
Exit exit_code(Stop stop);
// "stopped after iteration 10 of 60: the same command with --load goes on"
std::string stopped_text(i64 iteration, i64 total);
// Which flag ended the run after `iteration` of `total`, and how it goes on; empty where that is no
// flag.
std::string stop_note(Stop stop, const config::StoppingFlags& flags, i64 iteration, i64 total);

}  // namespace lm::train
