// SPDX-License-Identifier: Apache-2.0
// Maxima that keep a NaN: NCCL's, like fmax(), drop it. Floats become integers in the same order,
// with every NaN above infinity; their maximum is taken as that of integers.
#pragma once

#include <cuda_runtime.h>

#include "base/dtype.hpp"

namespace lm::cuda {

// int32, of fp64 int64.
constexpr DType key_type(DType dtype) {
    return dtype == DType::fp64 ? DType::int64 : DType::int32;
}
// Keys of 32- and 64-bit floats fit where the floats were.
constexpr bool keys_in_place(DType dtype) {
    return !is_half(dtype);
}

// n elements of fp32, fp64, bf16 or fp16 and their keys; `keys` may be `x` where they fit. A NaN
// comes back as a NaN, with other bits.
void to_keys(cudaStream_t stream, DType dtype, const void* x, void* keys, i64 n);
void from_keys(cudaStream_t stream, DType dtype, const void* keys, void* x, i64 n);

}  // namespace lm::cuda
