// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix (gradients of biases and norm weights) in two steps: blocks of
// rows, then the blocks, both in an order that the shape alone decides, and without atomics: the
// same bits every time.
#pragma once

#include <cuda_runtime.h>

#include "device/ops.hpp"

namespace lm::cuda {

// target[columns] = (accumulate ? target : 0) + the sum of the parts: parts[n_parts], each `stride`
// floats after the one before.
struct PartSums {
    const float* parts = nullptr;
    i64 n_parts = 0;
    i64 stride = 0;
    i64 columns = 0;
};
void add_parts(cudaStream_t stream, const PartSums& sums, float* target, bool accumulate);

// target = (accumulate ? target : 0) + the sums of x[N, M]'s columns; takes what
// cost::column_sum_floats() says of `workspace`.
void column_sums(cudaStream_t stream, const device::View& workspace, const device::View& x,
                 float* target, bool accumulate);

}  // namespace lm::cuda
