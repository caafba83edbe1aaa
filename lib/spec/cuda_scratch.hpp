// SPDX-License-Identifier: Apache-2.0
// Scratch memory of the CUDA backend's operations: what they take from the workspace, and what the
// plan of spec/memory.hpp sets aside.
#pragma once

#include "base/types.hpp"

namespace lm::spec {

// Most partial sums of a reduction of a flat range.
constexpr i64 cuda_sum_blocks = 1024;

}  // namespace lm::spec
