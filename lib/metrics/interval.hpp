// SPDX-License-Identifier: Apache-2.0
// Accumulates iterations between two log lines. The loss is the mean over the iterations with an
// optimizer step. Only step times count, so an evaluation or a save does not raise the step time of
// the line.
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
    double model_flops = 0;  // per device, without recomputation, as MFU counts
};

// The sums of an interval. A checkpoint keeps them, so that the first line of a resumed run is the
// same as in an uninterrupted run.
struct IntervalSums {
    i64 n = 0, stepped = 0, not_finite = 0;
    double loss = 0, elapsed_s = 0, samples = 0, tokens = 0, flops = 0, model_flops = 0;
};

class Interval {
  public:
    void add(const IterationRecord& iteration);
    bool empty() const { return sums_.n == 0; }
    // Fills the means and rates of `record` (loss, step_s, samples_per_s, tokens_per_s,
    // flops_per_s, skipped and nan iterations; mfu when peak_flops > 0, the dense peak of one
    // device) and starts the next interval.
    void finish(StepRecord& record, double peak_flops = 0);

    const IntervalSums& sums() const { return sums_; }
    void restore(const IntervalSums& sums) { sums_ = sums; }

  private:
    IntervalSums sums_;
};

}  // namespace lm::metrics
