// SPDX-License-Identifier: Apache-2.0
// Why numbers are functions of a counter, and no generator has a state.
//
// The usual generator is an object that changes with each number: the Mersenne Twister, or
// PyTorch's Philox, whose offset advances with each call. Its numbers depend on the calls before,
// so everything that changes their order changes the model. Megatron-LM therefore keeps several
// states on each rank, one for dropout that differs between tensor ranks and one that does not,
// switches between them inside of modules, saves them in the checkpoint, and restores them around
// recomputed layers. A run that resumes with another tensor or pipeline size has no states for its
// ranks.
//
// Here the number for a purpose, a place and a sample is computed from these three when it is
// needed:
//
// - An initial weight depends on the name of its tensor and the index of the element in the whole
//   tensor (model/init.cpp). Each rank writes its part, and all layouts begin with equal weights.
// - A dropout mask depends on layer, site, sample and element (device/dropout.hpp). No mask is
//   stored: backward computes it again. So does a recomputed layer, without knowing that it is one,
//   and a repeated step (train/step/step_guard.cpp) drops the same values on another rank.
// - The order of samples depends on the seed and the epoch (data/sampling/permutation.hpp).
//   Megatron's orders are the exception: they repeat numpy's Mersenne Twister once, at the start.
// - A checkpoint contains the seed and the number of consumed samples, and no state of a generator.
//   The generation of texts, an evaluation or another thread cannot shift the numbers of the
//   training.
//
// The tests of all parallel code rest on this: with dropout, too, a model on eight ranks can be
// compared with the model on one.
//
// The price is computation. A small state, such as that of xorshift, advances by a few
// instructions; Philox makes ten rounds of multiplications: dropout of 0.1 makes the attention of
// GPT-2 124M 1.2 to 1.3 times as slow on a CPU (bench/RESULTS.md), and on a GPU a block of Philox
// costs about 80 instructions for 8 scores, more than their softmax (bench/cuda.md). So a mask
// takes 16 bits of a block for each element, not 32, and its probability is rounded to a multiple
// of 2^-16. A library cannot replace a kernel that has dropout, because it would draw other
// numbers: cuDNN's attention is used only without dropout of probabilities.
//
// Philox was chosen among the counter-based generators because it needs only multiplications of 32
// bits, which vector units and GPUs have. The generators of the same paper that use AES are fast
// where a processor has instructions for it, and a GPU has none. SplitMix64 computes keys only.
// Another generator changes every trained model: golden files and the bits of all resumed runs
// would have to be given up.
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
