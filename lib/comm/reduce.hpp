// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction on the CPU. Always adds in the order of `inputs`, so that groups of
// threads and groups over TCP give the same bits. MPI groups do not use this function, because the
// MPI library reduces in an order of its own.
#pragma once

#include <span>

#include "comm/operation.hpp"

namespace lm::comm {

// Accumulators of this number of elements are on the stack.
constexpr i64 reduce_block = 2048;

// Writes out[i] = inputs[0][offset + i] + inputs[1][offset + i] + ... (or their maximum) for i in
// [0, n). Each input has at least offset + n elements of `dtype`; out is [n]. 16-bit floats are
// added in fp32 and rounded once. `out` may be the elements [offset, offset + n) of one of the
// inputs.
void reduce(DType dtype, Reduction reduction, std::span<const void* const> inputs, i64 offset,
            i64 n, void* out);

}  // namespace lm::comm
