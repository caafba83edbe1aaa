// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/pair_kernels.hpp"

#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {

const PairKernels* pair_kernels() {
#if defined(__x86_64__)
    if (&vector_kernels() == &avx512_bf16_kernels) return &avx512_pair_kernels;
#endif
    return nullptr;
}

}  // namespace lm::cpu
