// SPDX-License-Identifier: Apache-2.0
// What the loop reports about its iterations: log lines, the pace, the comparison of the ranks, and
// the report of --benchmark.
#pragma once

#include "train/log/benchmark_report.hpp"
#include "train/log/pace.hpp"
#include "train/log/straggler.hpp"
#include "train/loop/loop_parts.hpp"

namespace lm::train {

class IterationLog {
  public:
    // `start`: the progress at the start of the run.
    IterationLog(const LoopParts& parts, const spec::Counters& start);

    // Call begin() before an iteration with a step, begin_micro_batch() before each of its
    // micro-batches, and end() after it. `before`, `done`: the progress before and after it.
    // `run_iterations`: the earlier iterations of this run. `rate`: the learning rate of the next
    // iteration. `step_s`: the time of the iteration. `keeps_weights`: the step was not made,
    // because its batch was refused. end() is collective.
    void begin(const spec::Counters& before, const TrainingLog::BatchSize& batch,
               i64 run_iterations);
    void begin_micro_batch() { pace_.begin_micro_batch(); }
    void end(const spec::Counters& done, const TrainingLog::BatchSize& batch,
             const StepResult& result, i64 run_iterations, double rate, double step_s,
             bool keeps_weights);

    // Prints the log line, and compares the times of the ranks in the iterations since the last log
    // line. `run_iterations`: the iterations of this run so far. Collective.
    void log(const spec::Counters& done, double rate, i64 run_iterations);
    // Prints the state of this rank when SIGUSR2 has requested it.
    void dump_if_requested(const spec::Counters& done);
    // Removes the status line.
    void finish() { pace_.finish(); }
    // Prints the tables of the whole run.
    void print_tables();

  private:
    bool is_timed(i64 run_iterations) const {
        return run_iterations >= 1 && run_iterations <= n_timed_;
    }

    LoopParts parts_;
    i64 n_timed_;  // number of iterations after the first in which --benchmark measures operations
    Pace pace_;
    BenchmarkReport benchmark_;
    RankComparison comparison_;
    i64 compared_ = 0;  // iterations of this run that comparison_ contains
};

}  // namespace lm::train
