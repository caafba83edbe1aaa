// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11). A number is a pure function of (key, counter), so that initial weights, dropout
// masks and sample order depend on no layout, thread or rank.
#pragma once

#include <array>
#include <string_view>

#include "base/types.hpp"

namespace lm {

using Philox4 = std::array<u32, 4>;

// One block of four 32-bit words for a 64-bit key and a 128-bit counter.
inline Philox4 philox(u64 key, u64 counter_lo, u64 counter_hi) {
    Philox4 c = {static_cast<u32>(counter_lo), static_cast<u32>(counter_lo >> 32),
                 static_cast<u32>(counter_hi), static_cast<u32>(counter_hi >> 32)};
    u32 k0 = static_cast<u32>(key);
    u32 k1 = static_cast<u32>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 p0 = u64{0xD2511F53U} * c[0];
        const u64 p1 = u64{0xCD9E8D57U} * c[2];
        c = {static_cast<u32>(p1 >> 32) ^ c[1] ^ k0, static_cast<u32>(p1),
             static_cast<u32>(p0 >> 32) ^ c[3] ^ k1, static_cast<u32>(p0)};
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return c;
}

// Mixes two 64-bit values into a key: splitmix64's finaliser over both.
u64 mix(u64 a, u64 b);

// The key of a named stream of a run: (seed, tensor name) or (seed, purpose).
u64 stream_key(u64 seed, std::string_view name);

// Standard normal number `index` of the stream `key` (Box-Muller in double precision; numbers 2k
// and 2k+1 are the two of one pair).
double normal(u64 key, u64 index);

// Uniform in [0, 1) with 53 bits: number `index` of the stream `key`.
double uniform(u64 key, u64 index);

}  // namespace lm
