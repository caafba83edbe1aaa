// SPDX-License-Identifier: Apache-2.0
// --rampup-batch-size START INCREMENT SAMPLES: the global batch size as a function of the samples
// consumed before an iteration (Megatron-LM, microbatches.py).
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::optim {

class BatchRamp {
  public:
    explicit BatchRamp(i64 global_batch);  // constant
    // Throws Error(usage) naming --rampup-batch-size.
    BatchRamp(i64 global_batch, i64 start, i64 increment, i64 samples);

    // Samples of the iteration that starts after `consumed` samples.
    i64 at(i64 consumed) const;
    // True when every batch from here on has the full size.
    bool full(i64 consumed) const { return consumed > samples_ || increment_ == 0; }
    i64 global_batch() const { return global_batch_; }

    // Every size the ramp passes through, with the first iteration (from 1) and the samples
    // consumed before it.
    struct Stage {
        i64 batch;
        i64 first_iteration;
        i64 first_sample;
    };
    std::vector<Stage> stages() const;

    // Throws Error(usage) when a batch of some stage is no multiple of micro_batch x dp_size: found
    // now, not days into the run. Names the stage and what would work.
    void check(i64 micro_batch, i64 dp_size) const;

  private:
    i64 global_batch_;
    i64 start_ = 0, increment_ = 0, samples_ = 0;
    double samples_per_increment_ = 0;  // not rounded, as there
};

}  // namespace lm::optim
