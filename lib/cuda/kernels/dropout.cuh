// SPDX-License-Identifier: Apache-2.0
// Dropout inside kernels: the mask of device/dropout.hpp, eight elements (one Philox block) at a
// time.
#pragma once

#include <cuda_runtime.h>

#include "device/dropout.hpp"

namespace lm::cuda {

// The part of a DropoutMask that a kernel needs. threshold 0 drops nothing.
struct DropoutNumbers {
    u64 key = 0;
    u32 threshold = 0;
    float scale = 1.0F;
};

inline DropoutNumbers dropout_numbers(const device::Dropout& dropout) {
    if (!dropout.on()) return {};
    const device::DropoutMask mask(dropout);
    return {mask.key(), mask.threshold(), static_cast<float>(mask.scale())};
}

// The 128 bits of one Philox block: bits 16 * i to 16 * i + 15 are the random number of element 8 *
// block + i. number() selects words by conditions, because with a variable index the compiler would
// place the array in local memory instead of registers.
struct DropoutBlock {
    u32 word[4];
    __device__ u32 number(int i) const {
        const u32 pair = i < 4 ? (i < 2 ? word[0] : word[1]) : (i < 6 ? word[2] : word[3]);
        return i % 2 == 0 ? pair & 0xffffU : pair >> 16;
    }
};

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), with the same
// bits as philox() of base/rng.hpp.
__device__ inline DropoutBlock dropout_block(u64 key, u64 sample, u64 block) {
    u32 c0 = static_cast<u32>(block);
    u32 c1 = static_cast<u32>(block >> 32);
    u32 c2 = static_cast<u32>(sample);
    u32 c3 = static_cast<u32>(sample >> 32);
    u32 k0 = static_cast<u32>(key);
    u32 k1 = static_cast<u32>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = u64{0xD2511F53U} * c0;
        const u64 p1 = u64{0xCD9E8D57U} * c2;
        c0 = static_cast<u32>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<u32>(p1);
        c2 = static_cast<u32>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<u32>(p0);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return {{c0, c1, c2, c3}};
}

}  // namespace lm::cuda
