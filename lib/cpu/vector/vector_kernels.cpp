// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector/vector_kernels.hpp"

#include <vector>

#include "base/machine.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

#if defined(__x86_64__)
// Returns whether the processor has AMX with bf16 (cpuid leaf 7, bits 22 and 24 of edx), and Linux
// permits this process to use the tiles. A process must request this permission.
bool has_amx() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    constexpr unsigned features = 1U << 22 | 1U << 24;
    if ((d & features) != features) return false;
#if defined(SYS_arch_prctl)
    constexpr int request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr int tile_data = 18;               // XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
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

const PackedKernels* amx_packed_kernels() {
#if defined(__x86_64__)
    static const bool usable =
        may_use(Vectors::amx) && &vector_kernels() == &avx512_bf16_kernels && has_amx();
    if (usable) return &amx_kernels;
#endif
    return nullptr;
}

const PackedKernels& packed_kernels(DType type) {
    const PackedKernels* const amx = type == DType::bf16 ? amx_packed_kernels() : nullptr;
    return amx ? *amx : vector_kernels().packed;
}

}  // namespace lm::cpu
