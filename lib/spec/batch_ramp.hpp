// SPDX-License-Identifier: Apache-2.0
// --rampup-batch-size START INCREMENT SAMPLES: the global batch size as a function of the samples
// consumed, as Megatron computes it (megatron/microbatches.py), and the iterations that follow.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::spec {

struct BatchRamp {
    i64 start = 0;  // 0: no ramp
    i64 increment = 0;
    i64 samples = 0;
    i64 global_batch = 1;

    // Throws Error(usage) naming --rampup-batch-size.
    void check() const;
    i64 batch_at(i64 consumed_samples) const;
};

// A run of iterations of one batch size.
struct RampStep {
    i64 batch = 0;
    i64 first_iteration = 1;  // counted from 1
    i64 consumed_before = 0;  // samples, before the first iteration
    i64 n_iterations = 0;
    i64 consumed_after() const { return consumed_before + batch * n_iterations; }
};

// Every batch size until `total_samples` are consumed; a last batch that would exceed them is
// dropped, as in Megatron. From a training that has consumed some already, iterations are counted
// from there.
std::vector<RampStep> ramp_steps(const BatchRamp& ramp, i64 total_samples, i64 consumed = 0);

// Consumed by the first `iterations` iterations.
i64 samples_after(const BatchRamp& ramp, i64 iterations);

// Iterations of the whole training.
i64 count_iterations(const BatchRamp& ramp, i64 total_samples);

}  // namespace lm::spec
