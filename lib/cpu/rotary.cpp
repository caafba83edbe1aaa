// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, in place (Su et al. 2021). Pairs are (x[i], x[i + D/2]) of a head, as
// in GPT-NeoX and Llama.
#include <algorithm>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::Rotary;

template <typename T>
void rotate_row(const Rotary& a, i64 row) {
    const i64 half = a.head_dim / 2;
    const T* const angles = a.angles.as<T>() + a.positions.as<i32>()[row] * a.head_dim;
    for (i64 head = 0; head < a.n_heads; ++head) {
        T* const x = a.x.as<T>() + row * a.x[2] + head * a.head_dim;
        for (i64 i = 0; i < half; ++i) {
            const double cosine = angles[i];
            const double sine = a.inverse ? -angles[half + i] : angles[half + i];
            const double first = x[i];
            const double second = x[i + half];
            x[i] = static_cast<T>(first * cosine - second * sine);
            x[i + half] = static_cast<T>(second * cosine + first * sine);
        }
    }
}

}  // namespace

void reference::rotary(device::Context& context, const Rotary& a) {
    (void)context;
    with_type(a.x.dtype, [&]<typename T>(T) {
        for (i64 row = 0; row < a.x[0] * a.x[1]; ++row) rotate_row<T>(a, row);
    });
}

void fast::rotary(device::Context& context, const Rotary& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const i64 half = a.head_dim / 2;
    const float sign = a.inverse ? -1.0F : 1.0F;
    const Source source(a.x);
    const Target target(a.x);
    constexpr i64 grain = 16;
    pool_of(context).run_ranges(a.x[0] * a.x[1], grain, [&](i64 begin, i64 end, int) {
        float scratch[2][row_piece];
        for (i64 row = begin; row < end; ++row) {
            const float* const angles =
                a.angles.as<float>() + a.positions.as<i32>()[row] * a.head_dim;
            for (i64 head = 0; head < a.n_heads; ++head) {
                const i64 at = row * a.x[2] + head * a.head_dim;
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
        }
    });
}

}  // namespace lm::cpu
