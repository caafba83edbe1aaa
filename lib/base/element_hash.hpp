// SPDX-License-Identifier: Apache-2.0
// The hash of one element of a tensor. CPU code and GPU kernels compute the same value.
#pragma once

#include "base/types.hpp"

namespace lm {

// Returns the hash of an element with the bits `bits` at position `index` of a tensor. All factors
// are odd and each step can be inverted, so two elements with different bits at the same index
// always have different hashes.
constexpr u64 element_hash(u64 index, u64 bits) {
    u64 x = (index * 0x9E3779B97F4A7C15ULL) ^ (bits * 0xC2B2AE3D27D4EB4FULL);
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 29);
}

}  // namespace lm
