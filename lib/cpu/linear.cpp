// SPDX-License-Identifier: Apache-2.0
// Linear layers: reference loops, and products in tiles (matmul.hpp) with bias and activation
// applied to each tile. For a layer with M rows, N outputs and K inputs, forward is a GEMM with m =
// M, n = N, k = K.
#include <algorithm>

#include "cpu/column_sums.hpp"
#include "cpu/matmul.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"
#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {
namespace {

using device::Activation;
using device::ActivationForward;
using device::LinearBackwardInput;
using device::LinearBackwardWeight;
using device::LinearForward;

template <typename T>
void forward(const LinearForward& a) {
    const i64 width = a.x[1];
    const i64 m_end = a.w[0];
    const T* const bias = maybe<T>(a.bias);
    const bool active = a.activation != Activation::none;
    T* const pre = active ? a.pre_activation.as<T>() : nullptr;
    for (i64 n = 0; n < a.x[0]; ++n) {
        for (i64 m = 0; m < m_end; ++m) {
            const T* const x = a.x.as<T>() + n * width;
            const T* const w = a.w.as<T>() + m * width;
            double sum = bias ? bias[m] : 0.0;
            for (i64 k = 0; k < width; ++k) sum += static_cast<double>(x[k]) * w[k];
            if (active) pre[n * m_end + m] = static_cast<T>(sum);
            // The activation reads the rounded sum, so that activation_forward computes the same
            // bits.
            a.y.as<T>()[n * m_end + m] =
                static_cast<T>(activation_value(a.activation, static_cast<T>(sum)));
        }
    }
}

template <typename T>
void backward_input(const LinearBackwardInput& a) {
    const i64 m_end = a.w[0];
    const i64 width = a.w[1];
    const T* const pre = a.activation == Activation::none ? nullptr : a.pre_activation.as<T>();
    for (i64 n = 0; n < a.dy[0]; ++n) {
        for (i64 k = 0; k < width; ++k) {
            double sum = 0;
            for (i64 m = 0; m < m_end; ++m) {
                sum +=
                    static_cast<double>(a.dy.as<T>()[n * m_end + m]) * a.w.as<T>()[m * width + k];
            }
            if (pre) sum *= activation_slope(a.activation, pre[n * width + k]);
            a.dx.as<T>()[n * width + k] = static_cast<T>(sum);
        }
    }
}

template <typename T>
void backward_weight(const LinearBackwardWeight& a) {
    const i64 n_end = a.dy[0];
    const i64 m_end = a.dy[1];
    const i64 width = a.x[1];
    const T* const dy = a.dy.as<T>();
    for (i64 m = 0; m < m_end; ++m) {
        for (i64 k = 0; k < width; ++k) {
            T& dw = a.dw.as<T>()[m * width + k];
            double sum = a.accumulate ? dw : 0.0;
            for (i64 n = 0; n < n_end; ++n) {
                sum += static_cast<double>(dy[n * m_end + m]) * a.x.as<T>()[n * width + k];
            }
            dw = static_cast<T>(sum);
        }
        if (!a.dbias) continue;
        T& dbias = a.dbias.as<T>()[m];
        double sum = a.accumulate ? dbias : 0.0;
        for (i64 n = 0; n < n_end; ++n) sum += dy[n * m_end + m];
        dbias = static_cast<T>(sum);
    }
}

template <typename T>
void activate(const ActivationForward& a) {
    std::ranges::transform(a.x.span<T>(), a.y.as<T>(),
                           [&a](T x) { return static_cast<T>(activation_value(a.activation, x)); });
}

}  // namespace

namespace reference {

void activation_forward(device::Context&, const ActivationForward& a) {
    with_type(a.x.dtype, [&]<typename T>(T) { activate<T>(a); });
}

void linear_forward(device::Context&, const LinearForward& a) {
    with_type(a.x.dtype, [&]<typename T>(T) { forward<T>(a); });
}

void linear_backward_input(device::Context&, const LinearBackwardInput& a) {
    with_type(a.dy.dtype, [&]<typename T>(T) { backward_input<T>(a); });
}

void linear_backward_weight(device::Context&, const LinearBackwardWeight& a) {
    with_type(a.dy.dtype, [&]<typename T>(T) { backward_weight<T>(a); });
}

}  // namespace reference

namespace fast {
namespace {

void require_fast(DType type) {
    if (!is_fast_type(type)) no_such_type(type);
}

}  // namespace

void activation_forward(device::Context& context, const ActivationForward& a) {
    require_fast(a.x.dtype);
    constexpr i64 grain = 16 * row_piece;
    LM_CHECK(a.activation != Activation::none, "activation: expected an activation, got none");
    const ActivationLoops loops = vector_kernels().activation(a.activation);
    const Source x(a.x);
    const Target y(a.y);
    pool_of(context).run_ranges(a.x.numel(), grain, [&](i64 begin, i64 end, int) {
        float pre[row_piece];
        float out[row_piece];
        for_pieces(end - begin, [&](i64 first, i64 n) {
            const i64 at = begin + first;
            x.copy(at, 1.0F, pre, n);
            float* const to = y.row(at, out);
            loops.forward(pre, nullptr, to, n);
            y.store(at, to, n);
        });
    });
}

void linear_forward(device::Context& context, const LinearForward& a) {
    require_fast(a.x.dtype);
    const i64 width = a.w[0];
    const bool active = a.activation != Activation::none;
    const ActivationLoops loops = vector_kernels().activation(a.activation);
    const Source bias(a.bias);
    const Target y(a.y);
    // The product is written to pre_activation, and the activation reads the tile from the cache.
    const Target pre(active ? a.pre_activation : a.y);
    const Product product{.form = GemmForm::nt,
                          .m = a.x[0],
                          .n = width,
                          .k = a.x[1],
                          .a = a.x.data,
                          .b = a.w.data,
                          .c = pre.row(0, nullptr),
                          .type = a.x.dtype};
    matmul_of(context).run(context, product, [&](const Tile& t) {
        float bias_scratch[max_tile_cols];
        float y_scratch[max_tile_cols];
        const float* const tile_bias = bias.row(t.col_begin, t.width(), bias_scratch);
        for (i64 row = t.row_begin; row < t.row_end; ++row) {
            const i64 at = row * width + t.col_begin;
            if (active) {
                float* const out = y.row(at, y_scratch);
                const float* bias_left = tile_bias;
                if (pre.half()) {
                    // Rounds the sum first, so that activation_forward computes the same bits.
                    if (tile_bias) vector_kernels().add(t.row(row), tile_bias, t.width());
                    round_row(t.row(row), a.x.dtype, t.width());
                    bias_left = nullptr;
                }
                loops.forward(t.row(row), bias_left, out, t.width());
                y.store(at, out, t.width());
            } else if (tile_bias) {
                vector_kernels().add(t.row(row), tile_bias, t.width());
            }
            pre.store(at, t.row(row), t.width());
        }
    });
}

void linear_backward_input(device::Context& context, const LinearBackwardInput& a) {
    require_fast(a.dy.dtype);
    const i64 width = a.w[1];
    const bool active = a.activation != Activation::none;
    const ActivationLoops loops = vector_kernels().activation(a.activation);
    const Source pre(active ? a.pre_activation : device::View{});
    const Target dx(a.dx);
    const Product product{.form = GemmForm::nn,
                          .m = a.dy[0],
                          .n = width,
                          .k = a.w[0],
                          .a = a.dy.data,
                          .b = a.w.data,
                          .c = dx.row(0, nullptr),
                          .type = a.dy.dtype};
    matmul_of(context).run(context, product, [&](const Tile& t) {
        if (!active && !dx.half()) return;
        float scratch[max_tile_cols];
        for (i64 row = t.row_begin; row < t.row_end; ++row) {
            const i64 at = row * width + t.col_begin;
            if (active) {
                const float* const tile_pre = pre.row(at, t.width(), scratch);
                loops.backward(tile_pre, t.row(row), t.width());
            }
            dx.store(at, t.row(row), t.width());
        }
    });
}

void linear_backward_weight(device::Context& context, const LinearBackwardWeight& a) {
    require_fast(a.dy.dtype);
    const Product product{.form = GemmForm::tn,
                          .m = a.dy[1],
                          .n = a.x[1],
                          .k = a.dy[0],
                          .a = a.dy.data,
                          .b = a.x.data,
                          .c = a.dw.as<float>(),
                          .accumulate = a.accumulate,
                          .type = a.dy.dtype};
    matmul_of(context).run(context, product, [](const Tile&) {});
    if (!a.dbias) return;
    ColumnSums sums(context, a.dy[0], a.dy[1]);
    sums.add_rows(a.dy);
    sums.finish(a.dbias.as<float>(), a.accumulate);
}

}  // namespace fast
}  // namespace lm::cpu
