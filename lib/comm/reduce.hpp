// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction of the ranks' contributions on the CPU, always in the order of `inputs`.
#pragma once

#include <span>

#include "comm/operation.hpp"

namespace lm::comm {

constexpr i64 reduce_block = 2048;  // elements; what fits the accumulators on the stack

// out[i] = inputs[0][offset + i] + inputs[1][offset + i] + ... (or their maximum) for n <=
// reduce_block elements of `dtype`. 16-bit floats are added in fp32 and rounded once. `out` may be
// a place in one of the inputs, when it is the one that is reduced.
void reduce(DType dtype, Reduction reduction, std::span<const void* const> inputs, i64 offset,
            i64 n, void* out);

}  // namespace lm::comm
