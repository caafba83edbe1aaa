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

class Interval {
  public:
    void add(const IterationRecord& iteration);
    bool empty() const { return n_ == 0; }
    // Fills the means and rates of `record` (loss, step_s, samples_per_s, tokens_per_s,
    // flops_per_s, skipped and nan iterations; mfu when peak_flops > 0, the dense peak of one
    // device) and starts the next interval.
    void finish(StepRecord& record, double peak_flops = 0);

  private:
    i64 n_ = 0, stepped_ = 0, not_finite_ = 0;
    double loss_ = 0, elapsed_s_ = 0, samples_ = 0, tokens_ = 0, flops_ = 0, model_flops_ = 0;
};

}  // namespace lm::metrics
