// SPDX-License-Identifier: Apache-2.0
// PTX instructions of sm_80 and later, one function for each: matrix products of a warp, loads of
// their fragments from shared memory, asynchronous copies. The quoted names are sections of the PTX
// ISA. 16-bit elements are passed as bits, two in a word, the first in the low half; an unnamed
// argument selects their type. The emulator of the tests replaces this header by one with the same
// path.
//
// With g = lane / 4 and q = lane % 4, "Matrix Fragments for mma.m16n8k16 with .f16/.bf16 type":
//   a (16 x 16, rows x k):  a[0] = A[g][2q..], a[1] = A[g+8][2q..], a[2] = A[g][2q+8..],
//                           a[3] = A[g+8][2q+8..], each two elements adjacent along k
//   b (16 x 8, k x columns): b0 = B[2q..][g], b1 = B[2q+8..][g], each two adjacent along k
//   d (16 x 8):             d[0], d[1] = D[g][2q, 2q+1]; d[2], d[3] = D[g+8][2q, 2q+1]
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/vector.cuh"

namespace lm::cuda {

__device__ inline u32 shared_address(const void* shared) {
    return static_cast<u32>(__cvta_generic_to_shared(shared));
}

// "ldmatrix": loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8
// of matrix l / 8 (16 bytes). r[i] of each lane gets elements 2q and 2q + 1 of row g of matrix i.
__device__ inline void load_matrices(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// "ldmatrix .trans": r[i] of each lane gets element g of rows 2q and 2q + 1 of matrix i.
__device__ inline void load_matrices_transposed(u32 (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// "mma": d += a b for one a (16 x 16) and one b (16 x 8). Products are exact, sums are fp32.
__device__ inline void multiply_add(bf16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void multiply_add(fp16, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// "cp.async": starts a copy of 16 bytes to shared memory. The first `bytes` are read from `global`,
// the rest become zero.
__device__ inline void copy_async_16(void* shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes)
                 : "memory");
}

// "cp.async": starts a copy of 4 bytes to shared memory. Reads the first `bytes` from `global`; the
// rest become zero.
__device__ inline void copy_async_4(void* shared, const void* global, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes)
                 : "memory");
}

// "cp.async.commit_group": combines all copies that this thread started since its previous group
// into a group.
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// "cp.async.wait_group": blocks until all but this thread's latest `pending` groups are complete.
// Other threads see the copied bytes only after a barrier.
template <int pending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// "ex2": 2^x, relative error below 2^-22, subnormal results are 0.
__device__ inline float exp2_approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// "max .NaN": the maximum, or NaN when either argument is NaN.
__device__ inline float maximum(float a, float b) {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}

// "cvt": rounds two floats to nearest even and packs them, `low` in the low half.
__device__ inline u32 pack(bf16, float low, float high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ inline u32 pack(fp16, float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

}  // namespace lm::cuda
