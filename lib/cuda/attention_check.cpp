// SPDX-License-Identifier: Apache-2.0
// What attention's kernels rely on; apart from them, for their compiler reads no text formatting.
#include <limits>

#include "base/error.hpp"
#include "spec/cuda_scratch.hpp"

namespace lm::cuda {

void check_attention(i64 width, i64 row, double scale) {
    LM_CHECK(width <= spec::cuda_widest_head, "a head is too wide for attention's kernels");
    LM_CHECK(row <= std::numeric_limits<int>::max(), "a row of qkv is too long for attention");
    LM_CHECK(scale > 0, "attention's scale must be positive");
}

}  // namespace lm::cuda
