// SPDX-License-Identifier: Apache-2.0
// The inner loops for AVX2. Only the code between the pragmas is compiled for AVX2, because inline
// functions of other headers must not contain instructions that an older processor does not have.
#include "cpu/vector/vector_kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define LM_VECTOR_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#include "cpu/vector/all_loops.hpp"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace lm::cpu {
const VectorKernels avx2_kernels = kernels_of("AVX2");
}  // namespace lm::cpu
#endif
