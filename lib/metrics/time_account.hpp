// SPDX-License-Identifier: Apache-2.0
// Divides the time of a logged training by use: steps that count, steps computed twice, skipped
// steps, evaluations, saves, starts, and waiting between jobs.
#pragma once

#include <deque>

#include "base/types.hpp"

namespace lm::metrics {

// The seconds of each use, and the numbers of repeated, skipped and nan iterations. The sum of the
// seconds is the time from the first iteration, or from the event before it, to the last time
// stamp. In a log without time stamps, the sum is the time of the steps.
struct TimeUse {
    double useful_s = 0;
    double repeated_s = 0;  // time of iterations that a restart or a rollback discarded
    double skipped_s = 0;   // iterations without an optimizer step
    double nan_s = 0;       // iterations with a loss or gradient that is not finite
    double evaluation_s = 0;
    double saving_s = 0;
    double restarting_s = 0;  // from the start of a program to its first iteration
    double waiting_s = 0;     // from the end of a program to the start of the next program
    double other_s = 0;       // time of a running program that its log does not explain
    i64 repeated = 0, skipped = 0, nan = 0;
    double total_s() const {
        return useful_s + repeated_s + skipped_s + nan_s + evaluation_s + saving_s + restarting_s +
               waiting_s + other_s;
    }
};

class TimeAccount {
  public:
    // The state of the training between two logged iterations.
    enum class Phase { running, stopped, starting };

    // Adds the iterations `first` to `last`, each of which took `step_s`. `skipped`: number of
    // skipped iterations. `nan`: number of iterations with nan. An iteration that is skipped and
    // has nan counts only as nan.
    void add_steps(i64 first, i64 last, double step_s, i64 skipped, i64 nan);
    // Discards the `n` iterations after `last`. Returns the seconds that they took. For each
    // iteration that is older than the newest 100,000 lines, assumes `step_s` seconds.
    double discard_after(i64 last, i64 n, double step_s);
    // Adds time without iterations. `seconds` is negative when a step began before an event and
    // ended after it.
    void add_gap(Phase phase, double seconds);
    // Adds the time of an evaluation or a save that the log states.
    void add_evaluation(double seconds) { evaluation_s_ += seconds; }
    void add_save(double seconds) { save_s_ += seconds; }

    TimeUse use() const;

  private:
    struct Steps {
        i64 first = 0, last = 0;
        double step_s = 0;
        i64 skipped = 0, nan = 0;
    };
    void subtract(const Steps& steps, double share);

    std::deque<Steps> steps_;
    TimeUse use_;  // without the gaps of a running program
    double running_gap_s_ = 0, evaluation_s_ = 0, save_s_ = 0;
};

}  // namespace lm::metrics
