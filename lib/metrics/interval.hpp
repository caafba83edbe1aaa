// SPDX-License-Identifier: Apache-2.0
// Accumulates iterations between two log lines: the loss is the mean over the steps that were made,
// times are step times only, so that an evaluation or a save does not inflate the next line.
#pragma once

#include <optional>

#include "base/types.hpp"
#include "metrics/record.hpp"

namespace lm::metrics {

// One iteration as the loop saw it.
struct IterationRecord {
    double loss = 0;      // of this iteration's global batch
    bool stepped = true;  // false: the optimizer step was skipped
    bool finite = true;   // of loss and gradients
    i64 samples = 0;      // of this iteration
    i64 tokens = 0;
    double elapsed_s = 0;
    double flops = 0;        // per device, of this iteration; hardware formula
    double model_flops = 0;  // per device, without recomputation: what MFU counts
};

// What an interval has gathered; a checkpoint keeps it, so that the first line of a resumed run is
// the one that the undisturbed run prints.
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
