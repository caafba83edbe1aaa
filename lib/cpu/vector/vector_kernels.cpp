// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/vector_kernels.hpp"

#include <vector>

#include "base/machine.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lm::cpu {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports("f16c") needs a clang newer than 14.
bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<const VectorKernels*> supported() {
    std::vector<const VectorKernels*> sets;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (may_use(Vectors::avx512) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
        if (__builtin_cpu_supports("avx512bf16")) sets.push_back(&avx512_bf16_kernels);
        sets.push_back(&avx512_kernels);
    }
    if (may_use(Vectors::avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        has_f16c()) {
        sets.push_back(&avx2_kernels);
    }
#endif
    sets.push_back(&portable_kernels);
    return sets;
}

}  // namespace

std::span<const VectorKernels* const> all_vector_kernels() {
    static const std::vector<const VectorKernels*> sets = supported();
    return sets;
}

const VectorKernels& vector_kernels() {
    return *all_vector_kernels().front();
}

}  // namespace lm::cpu
