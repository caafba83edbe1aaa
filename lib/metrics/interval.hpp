// SPDX-License-Identifier: Apache-2.0
// Accumulates the iterations between two log lines. The loss of a line is the mean over the
// iterations with an optimizer step. The step time of a line contains only the times of steps,
// without evaluations and saves.
#pragma once

#include <optional>

#include "base/types.hpp"
#include "metrics/record.hpp"

namespace lm::metrics {

// The measurements of one iteration.
struct IterationRecord {
    double loss = 0;      // mean over the global batch
    bool stepped = true;  // false: the optimizer step was skipped
    bool finite = true;   // loss and gradients are finite
    i64 samples = 0;
    i64 tokens = 0;
    double elapsed_s = 0;
    double flops = 0;        // per device, including recomputation
    double model_flops = 0;  // per device, without recomputation; for MFU
};

// The sums over an interval. A checkpoint stores them, so that the first line of a resumed run is
// the same as in an uninterrupted run.
struct IntervalSums {
    i64 n = 0, stepped = 0, not_finite = 0;
    double loss = 0, elapsed_s = 0, samples = 0, tokens = 0, flops = 0, model_flops = 0;
};

class Interval {
  public:
    void add(const IterationRecord& iteration);
    bool empty() const { return sums_.n == 0; }
    // Sets the means and rates of `record` (loss, step_s, samples_per_s, tokens_per_s, flops_per_s,
    // skipped and nan iterations) and starts the next interval. `peak_flops` is the dense peak of
    // one device; mfu is set only if peak_flops > 0.
    void finish(StepRecord& record, double peak_flops = 0);

    const IntervalSums& sums() const { return sums_; }
    void restore(const IntervalSums& sums) { sums_ = sums; }

  private:
    IntervalSums sums_;
};

}  // namespace lm::metrics
