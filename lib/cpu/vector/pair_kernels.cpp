// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/pair_kernels.hpp"

#include "base/machine.hpp"

namespace lm::cpu {
namespace {

const PairKernels* choose() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (may_use(Vectors::avx512) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16")) {
        return &avx512_pair_kernels;
    }
#endif
    return nullptr;
}

}  // namespace

const PairKernels* pair_kernels() {
    static const PairKernels* const kernels = choose();
    return kernels;
}

}  // namespace lm::cpu
