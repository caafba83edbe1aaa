// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm in one: LayerNorm (Ba et al., 2016), RMSNorm (Zhang & Sennrich,
// 2019).
#include <cmath>

#include "cpu/cpu_device.hpp"
#include "cpu/dropout.hpp"
#include "cpu/ops.hpp"

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

void residual_norm_forward(device::Context& context, const ResidualNormForward& a) {
    reference::residual_norm_forward(context, a);
}
void residual_norm_backward(device::Context& context, const ResidualNormBackward& a) {
    reference::residual_norm_backward(context, a);
}

}  // namespace fast
}  // namespace lm::cpu
