// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm in one: LayerNorm (Ba et al., 2016), RMSNorm (Zhang & Sennrich,
// 2019).
#include <algorithm>
#include <cmath>

#include "cpu/column_sums.hpp"
#include "cpu/dropout.hpp"
#include "cpu/ops.hpp"
#include "cpu/vector.hpp"

namespace lm::cpu {
namespace {

using device::Norm;
using device::ResidualNormBackward;
using device::ResidualNormForward;

// The factors of one row operation's dropout; all 1 when it is off.
class RowDropout {
  public:
    RowDropout(const device::Dropout& dropout, i64 rows, i64 width)
        : on_(dropout.on()),
          mask_(dropout.p, dropout.seed, dropout.layer, dropout.site),
          width_(width) {
        if (!on_) return;
        samples_ = dropout.sample_ids.as<i64>();
        rows_per_sample_ = rows / dropout.sample_ids[0];
    }
    double factor(i64 row, i64 column) const {
        if (!on_) return 1.0;
        return mask_.factor(samples_[row / rows_per_sample_],
                            row % rows_per_sample_ * width_ + column);
    }

  private:
    bool on_;
    DropoutMask mask_;
    i64 width_;
    const i64* samples_ = nullptr;
    i64 rows_per_sample_ = 1;
};

template <typename T>
void forward(const ResidualNormForward& a) {
    const device::View& main = a.branch ? a.branch : a.residual;
    const i64 rows = main[0];
    const i64 width = main[1];
    const RowDropout dropout(a.dropout, rows, width);
    const T* const branch = maybe<T>(a.branch);
    const T* const residual = maybe<T>(a.residual);
    T* const sum = maybe<T>(a.sum);
    T* const y = maybe<T>(a.y);
    const T* const weight = maybe<T>(a.weight);
    const T* const bias = maybe<T>(a.bias);
    for (i64 n = 0; n < rows; ++n) {
        // Before anything of the row is written: sum may be residual or branch.
        const auto value = [&](i64 c) {
            const i64 i = n * width + c;
            const double kept = branch ? branch[i] * dropout.factor(n, c) : 0.0;
            return static_cast<T>((residual ? residual[i] : 0.0) + kept);
        };
        if (y) {
            double mean = 0;
            double square = 0;
            if (a.norm == Norm::layer_norm) {
                for (i64 c = 0; c < width; ++c) mean += value(c);
                mean /= static_cast<double>(width);
                a.mean.as<T>()[n] = static_cast<T>(mean);
            }
            for (i64 c = 0; c < width; ++c) square += (value(c) - mean) * (value(c) - mean);
            const double rstd = 1.0 / std::sqrt(square / static_cast<double>(width) + a.eps);
            a.rstd.as<T>()[n] = static_cast<T>(rstd);
            for (i64 c = 0; c < width; ++c) {
                const double scaled = (value(c) - mean) * rstd * weight[c];
                y[n * width + c] = static_cast<T>(scaled + (bias ? bias[c] : 0.0));
            }
        }
        for (i64 c = 0; sum && c < width; ++c) sum[n * width + c] = value(c);
    }
}

// With xhat = (sum - mean) * rstd and g = dy * weight: norm'(dy) = rstd * (g - mean(g) - xhat *
// mean(g * xhat)); RMSNorm has no mean(g) term.
template <typename T>
void backward(const ResidualNormBackward& a) {
    const i64 rows = a.dy[0];
    const i64 width = a.dy[1];
    const RowDropout dropout(a.dropout, rows, width);
    const T* const weight = a.weight.as<T>();
    const T* const dsum_in = maybe<T>(a.dsum_in);
    T* const dbranch = maybe<T>(a.dbranch);
    T* const dbias = maybe<T>(a.dbias);
    const bool centred = a.norm == Norm::layer_norm;
    for (i64 n = 0; n < rows; ++n) {
        const T* const dy = a.dy.as<T>() + n * width;
        const T* const sum = a.sum.as<T>() + n * width;
        const double mean = centred ? a.mean.as<T>()[n] : 0.0;
        const double rstd = a.rstd.as<T>()[n];
        double mean_g = 0;
        double mean_gx = 0;
        for (i64 c = 0; c < width; ++c) {
            const double g = static_cast<double>(dy[c]) * weight[c];
            mean_g += g;
            mean_gx += g * (sum[c] - mean) * rstd;
        }
        mean_g = centred ? mean_g / static_cast<double>(width) : 0.0;
        mean_gx /= static_cast<double>(width);
        for (i64 c = 0; c < width; ++c) {
            const i64 i = n * width + c;
            const double xhat = (sum[c] - mean) * rstd;
            const double g = static_cast<double>(dy[c]) * weight[c];
            const double dsum = (dsum_in ? dsum_in[i] : 0.0) + rstd * (g - mean_g - xhat * mean_gx);
            a.dsum.as<T>()[i] = static_cast<T>(dsum);
            if (dbranch) dbranch[i] = static_cast<T>(dsum * dropout.factor(n, c));
        }
    }
    for (i64 c = 0; c < width; ++c) {
        double weight_sum = a.dweight.as<T>()[c];
        double bias_sum = dbias ? dbias[c] : 0.0;
        for (i64 n = 0; n < rows; ++n) {
            const double mean = centred ? a.mean.as<T>()[n] : 0.0;
            const double dy = a.dy.as<T>()[n * width + c];
            weight_sum += dy * (a.sum.as<T>()[n * width + c] - mean) * a.rstd.as<T>()[n];
            bias_sum += dy;
        }
        a.dweight.as<T>()[c] = static_cast<T>(weight_sum);
        if (dbias) dbias[c] = static_cast<T>(bias_sum);
    }
}

}  // namespace

namespace reference {

void residual_norm_forward(device::Context& context, const ResidualNormForward& a) {
    (void)context;
    const DType type = a.branch ? a.branch.dtype : a.residual.dtype;
    with_type(type, [&]<typename T>(T) { forward<T>(a); });
}

void residual_norm_backward(device::Context& context, const ResidualNormBackward& a) {
    (void)context;
    with_type(a.dy.dtype, [&]<typename T>(T) { backward<T>(a); });
}

}  // namespace reference

namespace fast {
namespace {

// The dropout factors of a row in one worker's scratch, or nullptr.
class FactorRows {
  public:
    FactorRows(const device::Dropout& dropout, i64 rows, i64 width)
        : on_(dropout.on()),
          mask_(dropout.p, dropout.seed, dropout.layer, dropout.site),
          width_(width) {
        if (!on_) return;
        samples_ = dropout.sample_ids.as<i64>();
        rows_per_sample_ = rows / dropout.sample_ids[0];
    }
    const float* make(i64 row, float* scratch) const {
        if (!on_) return nullptr;
        const auto sample = static_cast<u64>(samples_[row / rows_per_sample_]);
        const auto first = static_cast<u64>(row % rows_per_sample_ * width_);
        vector_kernels().dropout_factors(mask_.key(), sample, first, mask_.threshold(),
                                         static_cast<float>(mask_.scale()), scratch, width_);
        return scratch;
    }

  private:
    bool on_;
    DropoutMask mask_;
    i64 width_;
    const i64* samples_ = nullptr;
    i64 rows_per_sample_ = 1;
};

template <typename T>
T* at(T* base, i64 offset) {
    return base ? base + offset : nullptr;
}

constexpr i64 grain = 16;  // rows of a task

}  // namespace

void residual_norm_forward(device::Context& context, const ResidualNormForward& a) {
    const device::View& main = a.branch ? a.branch : a.residual;
    if (main.dtype != DType::fp32) no_such_type(main.dtype);
    const i64 width = main[1];
    const FactorRows factors(a.dropout, main[0], width);
    const i64 row_floats = round_up(width, 16);
    Scratch scratch(context.workspace);
    float* const rows = scratch.take<float>(pool_of(context).size() * 2 * row_floats);
    float* const sum = maybe<float>(a.sum);
    float* const mean = a.norm == Norm::layer_norm && a.y ? a.mean.as<float>() : nullptr;
    pool_of(context).run_ranges(main[0], grain, [&](i64 begin, i64 end, int worker) {
        float* const own = rows + worker * 2 * row_floats;
        for (i64 n = begin; n < end; ++n) {
            const i64 i = n * width;
            const float* const branch = at(maybe<float>(a.branch), i);
            vector_kernels().norm_row({.branch = branch,
                                       .factors = branch ? factors.make(n, own) : nullptr,
                                       .residual = at(maybe<float>(a.residual), i),
                                       .sum = sum ? sum + i : own + row_floats,
                                       .weight = maybe<float>(a.weight),
                                       .bias = maybe<float>(a.bias),
                                       .y = at(maybe<float>(a.y), i),
                                       .mean = at(mean, n),
                                       .rstd = a.y ? a.rstd.as<float>() + n : nullptr,
                                       .eps = static_cast<float>(a.eps)},
                                      width);
        }
    });
}

void residual_norm_backward(device::Context& context, const ResidualNormBackward& a) {
    if (a.dy.dtype != DType::fp32) no_such_type(a.dy.dtype);
    const i64 width = a.dy[1];
    const bool centred = a.norm == Norm::layer_norm;
    const FactorRows factors(a.dropout, a.dy[0], width);
    Scratch scratch(context.workspace);
    float* const rows = scratch.take<float>(pool_of(context).size() * round_up(width, 16));
    // Sums of dweight and dbias side by side.
    ColumnSums sums(context, a.dy[0], 2 * width, scratch);
    sums.for_blocks([&](i64 begin, i64 end, float* partial, int worker) {
        std::fill(partial, partial + 2 * width, 0.0F);
        for (i64 n = begin; n < end; ++n) {
            const i64 i = n * width;
            float* const dbranch = at(maybe<float>(a.dbranch), i);
            float* const own = rows + worker * round_up(width, 16);
            vector_kernels().norm_backward_row({.dy = a.dy.as<float>() + i,
                                                .sum = a.sum.as<float>() + i,
                                                .weight = a.weight.as<float>(),
                                                .mean = centred ? a.mean.as<float>()[n] : 0.0F,
                                                .rstd = a.rstd.as<float>()[n],
                                                .centred = centred,
                                                .dsum_in = at(maybe<float>(a.dsum_in), i),
                                                .dsum = a.dsum.as<float>() + i,
                                                .factors = dbranch ? factors.make(n, own) : nullptr,
                                                .dbranch = dbranch,
                                                .dweight = partial,
                                                .dbias = partial + width},
                                               width);
        }
    });
    sums.reduce();
    sums.put(a.dweight.as<float>(), 0, width, true);
    if (a.dbias) sums.put(a.dbias.as<float>(), width, width, true);
}

}  // namespace fast
}  // namespace lm::cpu
