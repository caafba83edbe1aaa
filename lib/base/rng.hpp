// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11, section 3.3). A number is a pure function of (key, counter), so that initial
// weights, dropout masks and the order of samples do not depend on layout, threads or ranks.
#pragma once

#include <array>
#include <string_view>

#include "base/types.hpp"

namespace lm {

using Philox4 = std::array<u32, 4>;

// Returns four 32-bit random words for a 64-bit key and a 128-bit counter.
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

// Returns a key computed from two 64-bit values with the finalizer of SplitMix64 (Steele et al.,
// OOPSLA 2014).
u64 mix(u64 a, u64 b);

// Returns the key of a named random stream of a run. `name` is a tensor name or a purpose.
u64 stream_key(u64 seed, std::string_view name);

// Returns number `index` of the stream `key`, normally distributed with mean 0 and variance 1
// (Box-Muller in double precision). Numbers 2k and 2k + 1 are the two results of one transform.
double normal(u64 key, u64 index);

// Returns number `index` of the stream `key`, uniform in [0, 1) with 53 random bits.
double uniform(u64 key, u64 index);

}  // namespace lm
