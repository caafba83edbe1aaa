// SPDX-License-Identifier: Apache-2.0
// What attention's kernels cannot do; apart from them, for their compiler reads no text formatting.
#include <limits>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::cuda {

void check_attention(i64 width, i64 row, double scale) {
    constexpr i64 widest = 256;
    if (width > widest) {
        usage_error("--kv-channels",
                    "attention heads are {} wide, but those of --device cuda hold {} at most",
                    width, widest);
    }
    LM_CHECK(row <= std::numeric_limits<int>::max(), "a row of qkv is too long for attention");
    LM_CHECK(scale > 0, "attention's scale must be positive");
}

}  // namespace lm::cuda
