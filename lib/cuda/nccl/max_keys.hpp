// SPDX-License-Identifier: Apache-2.0
// Maxima that propagate NaN. ncclMax, like fmax(), drops NaN. Floats are converted to integer keys
// of the same order, with every NaN above infinity, and the maximum is computed over the keys.
#pragma once

#include <cuda_runtime.h>

#include "base/dtype.hpp"

namespace lm::cuda {

// Returns the type of keys: int64 for fp64, int32 for all others.
constexpr DType key_type(DType dtype) {
    return dtype == DType::fp64 ? DType::int64 : DType::int32;
}
// Returns true when keys have the size of the elements (fp32 and fp64), so that the keys can
// replace the elements in their buffer.
constexpr bool keys_in_place(DType dtype) {
    return !is_half(dtype);
}

// Convert n elements of fp32, fp64, bf16 or fp16 to keys and back. `keys` may be `x` when
// keys_in_place(). A NaN stays a NaN, with different bits.
void to_keys(cudaStream_t stream, DType dtype, const void* x, void* keys, i64 n);
void from_keys(cudaStream_t stream, DType dtype, const void* keys, void* x, i64 n);

}  // namespace lm::cuda
