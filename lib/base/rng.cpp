// SPDX-License-Identifier: Apache-2.0
#include "base/rng.hpp"

#include <cmath>
#include <numbers>

#include "base/hash.hpp"

namespace lm {
namespace {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014).
u64 splitmix(u64 x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

// Returns a number in (0, 1] with 53 random bits. It is never zero, so its logarithm is finite.
double open_unit(u32 hi, u32 lo) {
    const u64 bits = (u64{hi} << 21) ^ (u64{lo} >> 11);
    return (static_cast<double>(bits) + 1.0) * 0x1.0p-53;
}

}  // namespace

u64 mix(u64 a, u64 b) {
    return splitmix(splitmix(a) ^ b);
}

u64 stream_key(u64 seed, std::string_view name) {
    return mix(seed, hash64(name));
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
double normal(u64 key, u64 index) {
    const Philox4 r = philox(key, index / 2, 0);
    const double radius = std::sqrt(-2.0 * std::log(open_unit(r[0], r[1])));
    const double angle = 2.0 * std::numbers::pi * open_unit(r[2], r[3]);
    return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

double uniform(u64 key, u64 index) {
    const Philox4 r = philox(key, index, 1);
    return static_cast<double>((u64{r[0]} << 21) ^ (u64{r[1]} >> 11)) * 0x1.0p-53;
}

}  // namespace lm
