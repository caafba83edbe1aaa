// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/pair_kernels.hpp"

#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {

const PairKernels* pair_kernels() {
#if defined(__x86_64__)
    static const PairKernels with_amx = [] {
        PairKernels kernels = avx512_pair_kernels;
        kernels.product = amx_pair_product;
        return kernels;
    }();
    if (amx_packed_kernels()) return &with_amx;
    if (&vector_kernels() == &avx512_bf16_kernels) return &avx512_pair_kernels;
#endif
    return nullptr;
}

}  // namespace lm::cpu
