// SPDX-License-Identifier: Apache-2.0
// Reports how fast a training is: prints one note with the time of an iteration and the expected
// end of the training, usually before the first log line, and a status line on a terminal between
// log lines.
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "cli/progress_line.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

class Pace {
  public:
    // `shows`: whether this rank prints. `done`: the progress at the start of the run.
    Pace(const RunConfig& config, const spec::Counters& done, bool shows,
         double (*clock)() = monotonic_s);

    // Call begin_iteration() at the start of an iteration, begin_micro_batch() before each of its
    // `n_micro_batches` micro-batches on this rank, and end_iteration() at its end. `tokens`: the
    // tokens of the iteration on all ranks. `step_s`: the time of the iteration in seconds.
    void begin_iteration(const spec::Counters& done, i64 n_micro_batches, i64 tokens);
    void begin_micro_batch();
    void end_iteration(double step_s);
    // Removes the status line.
    void finish() { line_.reset(); }

  private:
    // Prints the note, for iterations of `iteration_s` seconds.
    void announce(double iteration_s);

    const RunConfig& config_;
    bool shows_;
    double (*clock_)();
    std::optional<cli::ProgressLine> line_;  // on a terminal
    bool announced_ = false;
    spec::Counters done_;
    i64 n_micro_batches_ = 1;
    i64 tokens_ = 0;             // tokens of an iteration, on all ranks
    i64 micro_batch_ = 0;        // number of micro-batches that have begun in the iteration
    i64 n_iterations_ = 0;       // number of iterations that have ended in this run
    double second_began_s_ = 0;  // clock at the start of the second micro-batch of the run
};

}  // namespace lm::train
