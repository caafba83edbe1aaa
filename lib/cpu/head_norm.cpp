// SPDX-License-Identifier: Apache-2.0
// Norms of the heads of query and key.
#include <algorithm>
#include <cmath>

#include "cpu/column_sums.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::HeadNormBackward;
using device::HeadNormForward;
using device::Norm;

constexpr i64 widest = device::widest_normed_head;

// The mean (0 for RMSNorm) and 1 / sqrt(variance + eps) of a head.
struct Statistics {
    template <typename T>
    Statistics(Norm norm, double eps, const T* x, i64 width) {
        const auto n = static_cast<double>(width);
        for (i64 i = 0; spec::is_centred(norm) && i < width; ++i) mean += x[i] / n;
        double square = 0;
        for (i64 i = 0; i < width; ++i) square += (x[i] - mean) * (x[i] - mean);
        rstd = 1.0 / std::sqrt(square / n + eps);
    }
    double mean = 0;
    double rstd = 0;
};

template <typename T>
void forward(const HeadNormForward& a) {
    const i64 d = a.query_weight[0];
    const i64 per_row = a.x[2] / d;
    const double offset = device::norm_offset(a.one_plus);
    for (i64 head = 0; head < a.x[0] * a.x[1] * per_row; ++head) {
        const T* const x = a.x.as<T>() + head * d;
        T* const y = a.y.as<T>() + head * d;
        if (head % per_row >= a.n_heads + a.n_groups) {
            std::copy_n(x, d, y);
            continue;
        }
        const bool query = head % per_row < a.n_heads;
        const T* const weight = (query ? a.query_weight : a.key_weight).as<T>();
        const T* const bias = maybe<T>(query ? a.query_bias : a.key_bias);
        const Statistics s(a.norm, a.eps, x, d);
        for (i64 i = 0; i < d; ++i) {
            const double scaled = (x[i] - s.mean) * s.rstd * (weight[i] + offset);
            y[i] = static_cast<T>(scaled + (bias ? bias[i] : 0.0));
        }
    }
}

// Computes the backward of one head, by the formulas of residual_norm.cpp.
template <typename T>
void backward_head(const HeadNormBackward& a, i64 at, bool query) {
    const i64 d = a.query_weight[0];
    const T* const x = a.x.as<T>() + at;
    const T* const dy = a.dy.as<T>() + at;
    const T* const weight = (query ? a.query_weight : a.key_weight).as<T>();
    T* const dweight = (query ? a.dquery_weight : a.dkey_weight).as<T>();
    T* const dbias = maybe<T>(query ? a.dquery_bias : a.dkey_bias);
    const double offset = device::norm_offset(a.one_plus);
    const auto n = static_cast<double>(d);
    const Statistics s(a.norm, a.eps, x, d);
    double mean_g = 0;
    double mean_gx = 0;
    for (i64 i = 0; i < d; ++i) {
        const double xhat = (x[i] - s.mean) * s.rstd;
        const double g = dy[i] * (weight[i] + offset);
        mean_g += spec::is_centred(a.norm) ? g / n : 0.0;
        mean_gx += g * xhat / n;
        dweight[i] = static_cast<T>(dweight[i] + dy[i] * xhat);
        if (dbias) dbias[i] = static_cast<T>(dbias[i] + dy[i]);
    }
    for (i64 i = 0; i < d; ++i) {
        const double xhat = (x[i] - s.mean) * s.rstd;
        const double g = dy[i] * (weight[i] + offset);
        a.dx.as<T>()[at + i] = static_cast<T>(s.rstd * (g - mean_g - xhat * mean_gx));
    }
}

template <typename T>
void backward(const HeadNormBackward& a) {
    const i64 d = a.query_weight[0];
    const i64 per_row = a.x[2] / d;
    for (const device::View& sum : {a.dquery_weight, a.dquery_bias, a.dkey_weight, a.dkey_bias}) {
        if (sum && !a.accumulate) std::fill_n(sum.as<T>(), d, T{0});
    }
    for (i64 head = 0; head < a.x[0] * a.x[1] * per_row; ++head) {
        if (head % per_row < a.n_heads + a.n_groups) {
            backward_head<T>(a, head * d, head % per_row < a.n_heads);
        } else {
            std::copy_n(a.dy.as<T>() + head * d, d, a.dx.as<T>() + head * d);
        }
    }
}

}  // namespace

namespace reference {

void head_norm_forward(device::Context&, const HeadNormForward& a) {
    with_type(a.x.dtype, [&]<typename T>(T) { forward<T>(a); });
}

void head_norm_backward(device::Context&, const HeadNormBackward& a) {
    with_type(a.x.dtype, [&]<typename T>(T) { backward<T>(a); });
}

}  // namespace reference

namespace fast {
namespace {

// A parameter of a norm as fp32, plus `offset`.
class Parameter {
  public:
    // view: [D] fp32, bf16 or fp16, or none
    Parameter(const device::View& view, float offset) : present_(view) {
        if (!view) return;
        Source(view).copy(0, 1.0F, values_, view[0]);
        for (i64 i = 0; i < view[0]; ++i) values_[i] += offset;
    }
    const float* get() const { return present_ ? values_ : nullptr; }

  private:
    bool present_;
    float values_[widest];
};

// Copies `n` elements of x to y, both at offset `at`.
void copy(const Source& x, const Target& y, i64 at, i64 n) {
    float scratch[row_piece];
    for_pieces(n, [&](i64 i, i64 count) {
        float* const to = y.row(at + i, scratch);
        x.copy(at + i, 1.0F, to, count);
        y.store(at + i, to, count);
    });
}

struct NormOfHead {
    Norm norm;
    double eps;
    i64 width;

    // Normalizes x, [width], and writes the result to y. Returns the statistics.
    std::pair<float, float> run(const float* x, const float* weight, const float* bias,
                                float* y) const {
        float sum[widest];
        float mean = 0;
        float rstd = 0;
        vector_kernels().norm_row({.branch = nullptr,
                                   .factors = nullptr,
                                   .residual = x,
                                   .sum = sum,
                                   .weight = weight,
                                   .bias = bias,
                                   .y = y,
                                   .mean = spec::is_centred(norm) ? &mean : nullptr,
                                   .rstd = &rstd,
                                   .eps = static_cast<float>(eps)},
                                  width);
        return {mean, rstd};
    }
};

}  // namespace

void head_norm_forward(device::Context& context, const HeadNormForward& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const i64 d = a.query_weight[0];
    const float offset = device::norm_offset(a.one_plus);
    const Parameter weights[] = {{a.query_weight, offset}, {a.key_weight, offset}};
    const Parameter biases[] = {{a.query_bias, -0.0F}, {a.key_bias, -0.0F}};
    const NormOfHead norm{a.norm, a.eps, d};
    const Source x(a.x);
    const Target y(a.y);
    const i64 normed = a.n_heads + a.n_groups;
    constexpr i64 grain = 16;
    pool_of(context).run_ranges(a.x[0] * a.x[1], grain, [&](i64 begin, i64 end, int) {
        float scratch[2][widest];
        for (i64 row = begin; row < end; ++row) {
            for (i64 head = 0; head < normed; ++head) {
                const i64 at = row * a.x[2] + head * d;
                const int kind = head < a.n_heads ? 0 : 1;
                float* const out = y.row(at, scratch[1]);
                norm.run(x.row(at, d, scratch[0]), weights[kind].get(), biases[kind].get(), out);
                y.store(at, out, d);
            }
            copy(x, y, row * a.x[2] + normed * d, a.x[2] - normed * d);
        }
    });
}

void head_norm_backward(device::Context& context, const HeadNormBackward& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const i64 d = a.query_weight[0];
    const float offset = device::norm_offset(a.one_plus);
    const Parameter weights[] = {{a.query_weight, offset}, {a.key_weight, offset}};
    const NormOfHead norm{a.norm, a.eps, d};
    const Source x(a.x);
    const Source dy(a.dy);
    const Target dx(a.dx);
    const i64 normed = a.n_heads + a.n_groups;
    // The columns of the sums: weight and bias of the query, then weight and bias of the key.
    ColumnSums sums(context, a.x[0] * a.x[1], 4 * d);
    sums.for_blocks([&](i64 begin, i64 end, float* partial, int) {
        float scratch[4][widest];
        std::fill(partial, partial + 4 * d, 0.0F);
        for (i64 row = begin; row < end; ++row) {
            for (i64 head = 0; head < normed; ++head) {
                const i64 at = row * a.x[2] + head * d;
                const int kind = head < a.n_heads ? 0 : 1;
                const float* const input = x.row(at, d, scratch[0]);
                const auto [mean, rstd] = norm.run(input, weights[kind].get(), nullptr, scratch[2]);
                float* const out = dx.row(at, scratch[3]);
                vector_kernels().norm_backward_row({.dy = dy.row(at, d, scratch[1]),
                                                    .sum = input,
                                                    .weight = weights[kind].get(),
                                                    .mean = mean,
                                                    .rstd = rstd,
                                                    .centred = spec::is_centred(a.norm),
                                                    .dsum_in = nullptr,
                                                    .dsum = out,
                                                    .factors = nullptr,
                                                    .dbranch = nullptr,
                                                    .dweight = partial + 2 * kind * d,
                                                    .dbias = partial + (2 * kind + 1) * d},
                                                   d);
                dx.store(at, out, d);
            }
            if (a.dx.data != a.dy.data) {
                copy(dy, dx, row * a.x[2] + normed * d, a.x[2] - normed * d);
            }
        }
    });
    sums.reduce();
    sums.put(a.dquery_weight.as<float>(), 0, d, a.accumulate);
    sums.put(a.dkey_weight.as<float>(), 2 * d, d, a.accumulate);
    if (!a.dquery_bias) return;
    sums.put(a.dquery_bias.as<float>(), d, d, a.accumulate);
    sums.put(a.dkey_bias.as<float>(), 3 * d, d, a.accumulate);
}

}  // namespace fast
}  // namespace lm::cpu
