// SPDX-License-Identifier: Apache-2.0
// The emulator's version of lib/cuda/kernels/mma.cuh, with the fragment layouts of the PTX ISA
// (instructions.cpp). Asynchronous copies are delayed on purpose: their target is NaN until the
// thread that started them waits for them.
#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "base/dtype.hpp"
#include "cuda/kernels/vector.cuh"
#include "races.hpp"

namespace emulator {

struct MatrixLoad {
    const void* row;
    uint32_t* to;
    const Where* where;
    static void resolve(void* const (&lanes)[32]);
    static void resolve_transposed(void* const (&lanes)[32]);
};

struct MatrixProduct {
    float* d;
    const uint32_t* a;
    uint32_t b[2];
    float (*value)(uint16_t bits);
    static void resolve(void* const (&lanes)[32]);
};

void copy_async(void* to, const void* from, int bytes, int size, const Where& where);
void commit_copies();
void wait_for_copies(int pending);

}  // namespace emulator

namespace lm::cuda {

inline void load_matrices(u32 (&r)[4], const void* row,
                          const emulator::Where& where = emulator::Where::current()) {
    emulator::races::reads(row, 16);
    emulator::MatrixLoad load{row, r, &where};
    emulator::warp_collective(emulator::MatrixLoad::resolve, 0xffffffffU, &load, where);
}

inline void load_matrices_transposed(u32 (&r)[4], const void* row,
                                     const emulator::Where& where = emulator::Where::current()) {
    emulator::races::reads(row, 16);
    emulator::MatrixLoad load{row, r, &where};
    emulator::warp_collective(emulator::MatrixLoad::resolve_transposed, 0xffffffffU, &load, where);
}

inline void multiply_add(bf16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1,
                         const emulator::Where& where = emulator::Where::current()) {
    emulator::MatrixProduct product{d, a, {b0, b1}, fp32_from_bf16};
    emulator::warp_collective(emulator::MatrixProduct::resolve, 0xffffffffU, &product, where);
}

inline void multiply_add(fp16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1,
                         const emulator::Where& where = emulator::Where::current()) {
    emulator::MatrixProduct product{d, a, {b0, b1}, fp32_from_fp16};
    emulator::warp_collective(emulator::MatrixProduct::resolve, 0xffffffffU, &product, where);
}

inline void copy_async_16(void* shared, const void* global, int bytes,
                          const emulator::Where& where = emulator::Where::current()) {
    emulator::copy_async(shared, global, bytes, 16, where);
}

inline void copy_async_4(void* shared, const void* global, int bytes,
                         const emulator::Where& where = emulator::Where::current()) {
    emulator::copy_async(shared, global, bytes, 4, where);
}

inline void commit_copies() {
    emulator::commit_copies();
}

template <int pending>
void wait_for_copies() {
    emulator::wait_for_copies(pending);
}

inline float exp2_approximate(float x) {
    const float y = std::exp2(x);
    return y < FLT_MIN ? 0.0F : y;
}

inline float maximum(float a, float b) {
    if (a != a || b != b) return std::numeric_limits<float>::quiet_NaN();
    return a > b ? a : b;
}

inline u32 pack(bf16, float low, float high) {
    return bf16_from_fp32(low) | static_cast<u32>(bf16_from_fp32(high)) << 16;
}

inline u32 pack(fp16, float low, float high) {
    return fp16_from_fp32(low) | static_cast<u32>(fp16_from_fp32(high)) << 16;
}

}  // namespace lm::cuda
