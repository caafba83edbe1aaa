// SPDX-License-Identifier: Apache-2.0
#include "infer/mixed_linear.hpp"

#include <algorithm>

#include "cpu/matmul.hpp"
#include "cpu/storage.hpp"
#include "cpu/vector/vector_kernels.hpp"

namespace lm::infer {
namespace {

// The largest number of rows for which few() computes a layer unless MixedLinear::apart is set. For
// more rows, the layer uses the CPU's GEMM, whose packing then costs less than it saves.
constexpr i64 few_rows = 32;
// The bytes of weights that one task reads, approximately. The division into tasks depends only on
// the shape and the type of the weights.
constexpr i64 task_bytes = i64{32} << 10;
// The largest size of a band of weights after widening to fp32, in bytes. Such a band is enough
// work for 64 threads.
constexpr i64 band_bytes = i64{64} << 20;

i64 band_rows(i64 inputs) {
    return std::max<i64>(cpu::max_tile_cols,
                         band_bytes / 4 / inputs / cpu::max_tile_cols * cpu::max_tile_cols);
}

void few(device::Context& context, const MixedLinear& a) {
    const i64 n = a.w[0];
    const i64 k = a.w[1];
    const i64 row_bytes = k * size_of(a.w.dtype);
    const i64 grain = std::max<i64>(4, task_bytes / row_bytes / 4 * 4);
    const float* const bias = cpu::maybe<float>(a.bias);
    cpu::pool_of(context).run_ranges(n, grain, [&](i64 begin, i64 end, int) {
        float* const y = a.y.as<float>() + begin;
        cpu::vector_kernels().row_products(
            {.m = a.x[0],
             .n = end - begin,
             .k = k,
             .x = a.x.as<float>(),
             .w = static_cast<const std::byte*>(a.w.data) + begin * row_bytes,
             .type = a.w.dtype,
             .y = y,
             .ldy = n});
        for (i64 i = 0; bias && i < a.x[0]; ++i) {
            cpu::vector_kernels().add(y + i * n, bias + begin, end - begin);
        }
    });
}

// Computes the columns [begin, begin + cols) of y. w: [cols, K] fp32.
void product(device::Context& context, const MixedLinear& a, const float* w, i64 begin, i64 cols) {
    const i64 n = a.y[1];
    const float* const bias = cpu::maybe<float>(a.bias);
    const cpu::Product form{
        .m = a.x[0], .n = cols, .k = a.x[1], .a = a.x.as<float>(), .b = w, .type = DType::fp32};
    cpu::matmul_of(context).run(context, form, [&](const cpu::Tile& tile) {
        for (i64 i = tile.row_begin; i < tile.row_end; ++i) {
            float* const y = a.y.as<float>() + i * n + begin + tile.col_begin;
            std::copy_n(tile.row(i), tile.width(), y);
            if (bias) cpu::vector_kernels().add(y, bias + begin + tile.col_begin, tile.width());
        }
    });
}

}  // namespace

i64 band_floats(DType weights, i64 inputs) {
    return is_half(weights) ? band_rows(inputs) * inputs : 0;
}

// band: [at least band_floats()] fp32
void mixed_linear(device::Context& context, const MixedLinear& a, const View& band) {
    if (a.apart || a.x[0] <= few_rows) return few(context, a);
    const i64 n = a.w[0];
    const i64 k = a.w[1];
    if (!is_half(a.w.dtype)) return product(context, a, a.w.as<float>(), 0, n);
    const cpu::Source weights(a.w);
    for (i64 begin = 0; begin < n; begin += band_rows(k)) {
        const i64 rows = std::min(band_rows(k), n - begin);
        float* const wide = band.as<float>();
        cpu::pool_of(context).run_ranges(rows, 16, [&](i64 first, i64 end, int) {
            weights.copy((begin + first) * k, 1.0F, wide + first * k, (end - first) * k);
        });
        product(context, a, wide, begin, rows);
    }
}

}  // namespace lm::infer
