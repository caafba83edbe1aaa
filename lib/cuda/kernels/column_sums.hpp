// SPDX-License-Identifier: Apache-2.0
// Column sums of a matrix (gradients of biases and norm weights) in two steps: each block sums a
// range of rows, then the results of the blocks are summed. Both steps add in an order that depends
// on the shape only, without atomics, so that every run computes the same bits.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

// n_parts partial sums, each a row of `columns` floats; row i begins at parts + i * stride.
struct PartSums {
    const float* parts = nullptr;
    i64 n_parts = 0;
    i64 stride = 0;
    i64 columns = 0;
};
// Targets of the sums: element c % width of to[c / width] gets the sum of column c. A part has
// `width` columns for each target. The sums of a target that is nullptr are dropped.
struct PartTargets {
    static constexpr int most = 4;
    float* to[most] = {};
    i64 width = 0;
};
// Each target [width] = (accumulate ? target : 0) + the sum of all parts.
void add_parts(cudaStream_t stream, const PartSums& sums, const PartTargets& targets,
               bool accumulate);
// target[columns] = (accumulate ? target : 0) + the sum of all parts.
inline void add_parts(cudaStream_t stream, const PartSums& sums, float* target, bool accumulate) {
    add_parts(stream, sums, {.to = {target}, .width = sums.columns}, accumulate);
}

// target[F] = (accumulate ? target : 0) + the sums of the columns of x [N, F] bf16|fp16|fp32. Uses
// cost::column_sum_floats(N, F) floats of `workspace` ([bytes] uint8).
void column_sums(cudaStream_t stream, const device::View& workspace, const device::View& x,
                 float* target, bool accumulate);

}  // namespace lm::cuda
