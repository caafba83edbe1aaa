// SPDX-License-Identifier: Apache-2.0
// The ramp of spec/batch_ramp.hpp as a training uses it: which batch comes next.
#pragma once

#include <vector>

#include "base/types.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::optim {

class BatchRamp {
  public:
    explicit BatchRamp(i64 global_batch);  // constant
    // Throws Error(usage) naming --rampup-batch-size.
    BatchRamp(i64 global_batch, i64 start, i64 increment, i64 samples);

    // Samples of the iteration that starts after `consumed` samples.
    i64 at(i64 consumed) const { return ramp_.batch_at(consumed); }
    // True when every batch from here on has the full size.
    bool full(i64 consumed) const { return ramp_.start == 0 || consumed > ramp_.samples; }
    i64 global_batch() const { return ramp_.global_batch; }
    const spec::BatchRamp& numbers() const { return ramp_; }

    // Every size the ramp passes through; the last one is the full size.
    std::vector<spec::RampStep> stages() const;

  private:
    spec::BatchRamp ramp_;
};

}  // namespace lm::optim
