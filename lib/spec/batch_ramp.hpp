// SPDX-License-Identifier: Apache-2.0
// The global batch size as a function of the consumed samples, as in Megatron, and the iterations
// that result from it: --rampup-batch-size START INCREMENT SAMPLES (megatron/microbatches.py) or
// --step-batch-size-schedule (megatron/core/num_microbatches_calculator.py).
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::spec {

// Consecutive iterations with equal batch size.
struct RampStep {
    i64 batch = 0;
    i64 first_iteration = 1;  // counted from 1
    i64 consumed_before = 0;  // samples consumed before the first iteration
    i64 n_iterations = 0;
    i64 consumed_after() const { return consumed_before + batch * n_iterations; }
};

// The batch size is `batch` when at least `samples` samples are consumed, until the next entry
// begins.
struct BatchFrom {
    i64 samples = 0;
    i64 batch = 0;
    bool operator==(const BatchFrom&) const = default;
};

struct BatchRamp {
    i64 start = 0;  // 0: no ramp
    i64 increment = 0;
    i64 samples = 0;  // samples after which the batch has its full size
    i64 global_batch = 1;
    // The entries of --step-batch-size-schedule, ascending; the first entry begins at 0 samples. If
    // the list is not empty, the other members follow from it: `start` is the batch of the first
    // entry, and `global_batch` is the batch of the last entry. The last entry begins when more
    // than `samples` samples are consumed.
    std::vector<BatchFrom> steps = {};

    // Throws Error(usage) naming --rampup-batch-size, --step-batch-size-schedule or
    // --global-batch-size when a value is invalid.
    void check() const;

    // Returns the batch size of the iteration that starts after `consumed_samples` samples.
    i64 batch_at(i64 consumed_samples) const;

    // Returns true when there is no ramp, or when more than `samples` samples are consumed. Then
    // the next iteration and all later iterations have the full batch size.
    bool is_full(i64 consumed_samples) const { return start == 0 || consumed_samples > samples; }

    // Returns one step for each batch size of the ramp that has iterations after `consumed`
    // samples. The last step has the full batch size and only the first one or two iterations of
    // that size.
    std::vector<RampStep> stages(i64 consumed = 0) const;

    bool operator==(const BatchRamp&) const = default;
};

// Returns the steps that remain in a training of `total_samples` samples after `consumed` samples.
// Iteration 1 is the first remaining iteration. As in Megatron, a last batch that exceeds
// `total_samples` is dropped.
std::vector<RampStep> ramp_steps(const BatchRamp& ramp, i64 total_samples, i64 consumed = 0);

// Returns the samples that are consumed `iterations` iterations after `consumed` samples.
i64 samples_after(const BatchRamp& ramp, i64 iterations, i64 consumed = 0);

// Returns the number of iterations of a training of `total_samples` samples after `consumed`
// samples.
i64 count_iterations(const BatchRamp& ramp, i64 total_samples, i64 consumed = 0);

// Returns the data-parallel sizes up to `limit` that divide every batch of the ramp into whole
// micro-batches of `micro_batch` samples.
std::vector<i64> fitting_dp_sizes(const BatchRamp& ramp, i64 micro_batch, i64 limit);

}  // namespace lm::spec
