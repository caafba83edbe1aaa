// SPDX-License-Identifier: Apache-2.0
// The sets of inner loops by instruction set; vector.cpp chooses one.
#pragma once

#include "cpu/vector.hpp"

namespace lm::cpu {

#if defined(__x86_64__)
extern const VectorKernels avx512_kernels;
extern const VectorKernels avx2_kernels;
#endif
extern const VectorKernels portable_kernels;

}  // namespace lm::cpu
