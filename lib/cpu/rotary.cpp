// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, in place (Su et al. 2021). The pairs of a head are (x[i], x[i + E/2]),
// as in GPT-NeoX and Llama, or, if interleaved, (x[2i], x[2i + 1]), as in GPT-J.
#include <algorithm>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::Rotary;

template <typename T>
void rotate_row(const Rotary& a, i64 row) {
    const i64 half = a.angles[1] / 2;
    const i64 step = a.interleaved ? 2 : 1;    // between the pairs
    const i64 gap = a.interleaved ? 1 : half;  // between the elements of a pair
    const T* const angles = a.angles.as<T>() + a.positions.as<i32>()[row] * 2 * half;
    for (i64 head = 0; head < a.n_heads; ++head) {
        T* const x = a.x.as<T>() + row * a.x[2] + head * a.head_dim;
        for (i64 i = 0; i < half; ++i) {
            const double cosine = angles[i];
            const double sine = a.inverse ? -angles[half + i] : angles[half + i];
            const double first = x[i * step];
            const double second = x[i * step + gap];
            x[i * step] = static_cast<T>(first * cosine - second * sine);
            x[i * step + gap] = static_cast<T>(second * cosine + first * sine);
        }
    }
}

}  // namespace

void reference::rotary(device::Context&, const Rotary& a) {
    with_type(a.x.dtype, [&]<typename T>(T) {
        for (i64 row = 0; row < a.x[0] * a.x[1]; ++row) rotate_row<T>(a, row);
    });
}

namespace {

// Rotates the pairs of one head in fp32 pieces. `at`: offset of the head's first element.
void rotate_halves(const Rotary& a, const float* angles, float sign, i64 at) {
    const i64 half = a.angles[1] / 2;
    const Source source(a.x);
    const Target target(a.x);
    float scratch[2][row_piece];
    for_pieces(half, [&](i64 i, i64 n) {
        float* const first = target.row(at + i, scratch[0]);
        float* const second = target.row(at + half + i, scratch[1]);
        source.row(at + i, n, first);
        source.row(at + half + i, n, second);
        vector_kernels().rotate(first, second, angles + i, angles + half + i, sign, n);
        target.store(at + i, first, n);
        target.store(at + half + i, second, n);
    });
}

void rotate_adjacent(const Rotary& a, const float* angles, float sign, i64 at) {
    const i64 half = a.angles[1] / 2;
    const Source source(a.x);
    const Target target(a.x);
    float pairs[2 * row_piece];
    float scratch[2][row_piece];
    for_pieces(half, [&](i64 i, i64 n) {
        const i64 begin = at + 2 * i;
        const float* const x = source.row(begin, 2 * n, pairs);
        for (i64 k = 0; k < n; ++k) {
            scratch[0][k] = x[2 * k];
            scratch[1][k] = x[2 * k + 1];
        }
        vector_kernels().rotate(scratch[0], scratch[1], angles + i, angles + half + i, sign, n);
        float* const y = target.row(begin, pairs);
        for (i64 k = 0; k < n; ++k) {
            y[2 * k] = scratch[0][k];
            y[2 * k + 1] = scratch[1][k];
        }
        target.store(begin, y, 2 * n);
    });
}

}  // namespace

void fast::rotary(device::Context& context, const Rotary& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const float sign = a.inverse ? -1.0F : 1.0F;
    constexpr i64 grain = 16;
    pool_of(context).run_ranges(a.x[0] * a.x[1], grain, [&](i64 begin, i64 end, int) {
        for (i64 row = begin; row < end; ++row) {
            const float* const angles =
                a.angles.as<float>() + a.positions.as<i32>()[row] * a.angles[1];
            for (i64 head = 0; head < a.n_heads; ++head) {
                const i64 at = row * a.x[2] + head * a.head_dim;
                (a.interleaved ? rotate_adjacent : rotate_halves)(a, angles, sign, at);
            }
        }
    });
}

}  // namespace lm::cpu
