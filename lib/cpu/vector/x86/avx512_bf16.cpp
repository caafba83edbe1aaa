// SPDX-License-Identifier: Apache-2.0
// The inner loops for AVX-512 with products of bf16 pairs (VDPBF16PS, which treats denormals as
// zero). Only the code between the pragmas is compiled for AVX-512, because inline functions of
// other headers must not contain instructions that an older processor does not have.
#include "cpu/vector/vector_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_VECTOR_AVX512
#define LM_VECTOR_BF16
#if defined(__clang__)
#pragma clang attribute push(                                                     \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")
#endif
#include "cpu/vector/all_loops.hpp"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace lm::cpu {
const VectorKernels avx512_bf16_kernels = kernels_of("AVX-512 bf16");
}  // namespace lm::cpu
#endif
