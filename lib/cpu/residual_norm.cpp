// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm in one operation: LayerNorm (Ba et al., 2016), RMSNorm (Zhang &
// Sennrich, 2019).
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cpu/column_sums.hpp"
#include "cpu/dropout.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::Norm;
using device::ResidualNormBackward;
using device::ResidualNormForward;

// The dropout factors of a row operation. All are 1 when dropout is off.
class RowDropout {
  public:
    RowDropout(const device::Dropout& dropout, i64 rows, i64 width)
        : on_(dropout.on()), mask_(dropout), width_(width) {
        if (on_) rows_.emplace(dropout, rows);
    }
    double factor(i64 row, i64 column) const {
        if (!on_) return 1.0;
        return mask_.factor(rows_->sample(row), rows_->row_of_sample(row) * width_ + column);
    }

  private:
    bool on_;
    DropoutMask mask_;
    i64 width_;
    std::optional<SampleRows> rows_;
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
    const double offset = device::norm_offset(a.one_plus);
    for (i64 n = 0; n < rows; ++n) {
        // `sum` may alias residual or branch. So the sums of a row are recomputed for each use, and
        // stored at the end.
        const auto value = [&](i64 c) {
            const i64 i = n * width + c;
            const double kept = branch ? branch[i] * dropout.factor(n, c) : 0.0;
            return static_cast<T>((residual ? residual[i] : 0.0) + kept);
        };
        if (y) {
            double mean = 0;
            double square = 0;
            if (spec::is_centred(a.norm)) {
                for (i64 c = 0; c < width; ++c) mean += value(c);
                mean /= static_cast<double>(width);
                a.mean.as<T>()[n] = static_cast<T>(mean);
            }
            for (i64 c = 0; c < width; ++c) square += (value(c) - mean) * (value(c) - mean);
            const double rstd = 1.0 / std::sqrt(square / static_cast<double>(width) + a.eps);
            a.rstd.as<T>()[n] = static_cast<T>(rstd);
            for (i64 c = 0; c < width; ++c) {
                const double scaled = (value(c) - mean) * rstd * (weight[c] + offset);
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
    const double offset = device::norm_offset(a.one_plus);
    const bool centred = spec::is_centred(a.norm);
    for (i64 n = 0; n < rows; ++n) {
        const T* const dy = a.dy.as<T>() + n * width;
        const T* const sum = a.sum.as<T>() + n * width;
        const double mean = centred ? a.mean.as<T>()[n] : 0.0;
        const double rstd = a.rstd.as<T>()[n];
        double mean_g = 0;
        double mean_gx = 0;
        for (i64 c = 0; c < width; ++c) {
            const double g = static_cast<double>(dy[c]) * (weight[c] + offset);
            mean_g += g;
            mean_gx += g * (sum[c] - mean) * rstd;
        }
        mean_g = centred ? mean_g / static_cast<double>(width) : 0.0;
        mean_gx /= static_cast<double>(width);
        for (i64 c = 0; c < width; ++c) {
            const i64 i = n * width + c;
            const double xhat = (sum[c] - mean) * rstd;
            const double g = static_cast<double>(dy[c]) * (weight[c] + offset);
            const double dsum = (dsum_in ? dsum_in[i] : 0.0) + rstd * (g - mean_g - xhat * mean_gx);
            a.dsum.as<T>()[i] = static_cast<T>(dsum);
            if (dbranch) dbranch[i] = static_cast<T>(dsum * dropout.factor(n, c));
        }
    }
}

template <typename T>
void backward_parameters(const ResidualNormBackward& a) {
    const i64 rows = a.dy[0];
    const i64 width = a.dy[1];
    T* const dbias = maybe<T>(a.dbias);
    const bool centred = spec::is_centred(a.norm);
    for (i64 c = 0; c < width; ++c) {
        double weight_sum = a.accumulate ? a.dweight.as<T>()[c] : 0.0;
        double bias_sum = dbias && a.accumulate ? dbias[c] : 0.0;
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

// Without a norm: dsum = dsum_in; dbranch = dropout'(dsum).
template <typename T>
void join_backward(const ResidualNormBackward& a) {
    const i64 width = a.dsum[1];
    const RowDropout dropout(a.dropout, a.dsum[0], width);
    T* const dbranch = maybe<T>(a.dbranch);
    for (i64 n = 0; n < a.dsum[0]; ++n) {
        for (i64 c = 0; c < width; ++c) {
            const i64 i = n * width + c;
            const T value = a.dsum_in.as<T>()[i];
            a.dsum.as<T>()[i] = value;
            if (dbranch) dbranch[i] = static_cast<T>(value * dropout.factor(n, c));
        }
    }
}

template <typename T>
void backward_branch_bias(const ResidualNormBackward& a) {
    const T* const gradient = (a.dbranch ? a.dbranch : a.dsum).as<T>();
    const i64 width = a.dsum[1];
    for (i64 c = 0; c < width; ++c) {
        double sum = a.accumulate ? a.dbranch_bias.as<T>()[c] : 0.0;
        for (i64 n = 0; n < a.dsum[0]; ++n) sum += gradient[n * width + c];
        a.dbranch_bias.as<T>()[c] = static_cast<T>(sum);
    }
}

}  // namespace

namespace reference {

void residual_norm_forward(device::Context&, const ResidualNormForward& a) {
    const DType type = a.branch ? a.branch.dtype : a.residual.dtype;
    with_type(type, [&]<typename T>(T) { forward<T>(a); });
}

void residual_norm_backward(device::Context&, const ResidualNormBackward& a) {
    with_type(a.dsum.dtype, [&]<typename T>(T) {
        if (a.dy) {
            backward_parameters<T>(a);  // before backward(), which may overwrite sum
            backward<T>(a);
        } else {
            join_backward<T>(a);
        }
        if (a.dbranch_bias) backward_branch_bias<T>(a);
    });
}

}  // namespace reference

namespace fast {
namespace {

// Computes the dropout factors of a row into a worker's scratch memory. Without dropout, compute()
// returns nullptr.
class FactorRows {
  public:
    FactorRows(const device::Dropout& dropout, i64 rows, i64 width)
        : on_(dropout.on()), mask_(dropout), width_(width) {
        if (on_) rows_.emplace(dropout, rows);
    }
    const float* compute(i64 row, float* scratch) const {
        if (!on_) return nullptr;
        if (mask_.threshold() == 0) {
            std::fill_n(scratch, width_, static_cast<float>(mask_.scale()));
            return scratch;
        }
        const auto sample = static_cast<u64>(rows_->sample(row));
        const auto first = static_cast<u64>(rows_->row_of_sample(row) * width_);
        vector_kernels().dropout_factors(mask_.key(), sample, first, mask_.threshold(),
                                         static_cast<float>(mask_.scale()), scratch, width_);
        return scratch;
    }

  private:
    bool on_;
    DropoutMask mask_;
    i64 width_;
    std::optional<SampleRows> rows_;
};

constexpr i64 grain = 16;  // rows of a task

// The scratch memory of the workers: cost::norm_scratch_rows rows for each.
class ScratchRows {
  public:
    ScratchRows(device::WorkspaceArena& scratch, int n_workers, i64 width)
        : width_(round_up(width, 16)),
          base_(scratch.reserve<float>(n_workers * cost::norm_scratch_rows * width_)) {}
    float* row(int worker, i64 index) const {
        return base_ + (worker * cost::norm_scratch_rows + index) * width_;
    }

  private:
    i64 width_;
    float* base_;
};

// Returns `view`, a parameter, [C] compute or empty, as fp32. A 16-bit parameter is widened once
// for all rows.
const float* parameter(const device::View& view, device::WorkspaceArena& scratch) {
    if (!view) return nullptr;
    const i64 n = view.numel();
    return Source(view).row(0, n, is_half(view.dtype) ? scratch.reserve<float>(n) : nullptr);
}

// Returns the factors of the columns: the weight, [C] compute or empty, or with `one_plus` 1 + the
// weight.
const float* column_factors(const device::View& weight, bool one_plus,
                            device::WorkspaceArena& scratch) {
    if (!weight || !one_plus) return parameter(weight, scratch);
    const i64 n = weight.numel();
    float* const factors = scratch.reserve<float>(n);
    Source(weight).copy(0, 1.0F, factors, n);
    for (i64 i = 0; i < n; ++i) factors[i] += 1.0F;
    return factors;
}

template <typename T>
T* at(T* base, i64 offset) {
    return base ? base + offset : nullptr;
}

}  // namespace

void residual_norm_forward(device::Context& context, const ResidualNormForward& a) {
    const device::View& main = a.branch ? a.branch : a.residual;
    if (!is_fast_type(main.dtype)) no_such_type(main.dtype);
    const i64 width = main[1];
    const FactorRows factors(a.dropout, main[0], width);
    device::WorkspaceArena scratch = arena_of(context.workspace);
    const float* const weight = column_factors(a.weight, a.one_plus, scratch);
    const float* const bias = parameter(a.bias, scratch);
    const ScratchRows rows(scratch, pool_of(context).size(), width);
    const Source branch(a.branch);
    const Source residual(a.residual);
    const Target sum(a.sum);
    const Target y(a.y);
    float* const mean = spec::is_centred(a.norm) && a.y ? a.mean.as<float>() : nullptr;
    pool_of(context).run_ranges(main[0], grain, [&](i64 begin, i64 end, int worker) {
        for (i64 n = begin; n < end; ++n) {
            const i64 i = n * width;
            NormRow row{.branch = branch.row(i, width, rows.row(worker, 1)),
                        .factors = branch ? factors.compute(n, rows.row(worker, 0)) : nullptr,
                        .residual = residual.row(i, width, rows.row(worker, 2)),
                        .sum = sum ? sum.row(i, rows.row(worker, 3)) : rows.row(worker, 3),
                        .weight = weight,
                        .bias = bias,
                        .y = y.row(i, rows.row(worker, 4)),
                        .mean = at(mean, n),
                        .rstd = a.y ? a.rstd.as<float>() + n : nullptr,
                        .eps = static_cast<float>(a.eps)};
            if (is_half(main.dtype)) {
                // The norm must read the rounded sum, because backward reads the rounded sum. So
                // the sum is computed and rounded first, and then normalized like a row without a
                // branch.
                float* const normed = std::exchange(row.y, nullptr);
                vector_kernels().norm_row(row, width);
                round_row(row.sum, main.dtype, width);
                sum.store(i, row.sum, width);
                row.branch = nullptr;
                row.residual = row.sum;
                row.y = normed;
                if (!normed) continue;
            }
            vector_kernels().norm_row(row, width);
            y.store(i, row.y, width);
        }
    });
}

namespace {

void join_backward(device::Context& context, const ResidualNormBackward& a) {
    const i64 width = a.dsum[1];
    const FactorRows factors(a.dropout, a.dsum[0], width);
    device::WorkspaceArena scratch = arena_of(context.workspace);
    const ScratchRows rows(scratch, pool_of(context).size(), width);
    const Source dsum_in(a.dsum_in);
    const Target dsum(a.dsum);
    const Target dbranch(a.dbranch);
    pool_of(context).run_ranges(a.dsum[0], grain, [&](i64 begin, i64 end, int worker) {
        for (i64 n = begin; n < end; ++n) {
            const i64 i = n * width;
            float* const stream = dsum.row(i, rows.row(worker, 0));
            dsum_in.copy(i, 1.0F, stream, width);
            dsum.store(i, stream, width);
            if (!dbranch) continue;
            float* const branch = dbranch.row(i, rows.row(worker, 1));
            const float* const kept = factors.compute(n, rows.row(worker, 2));
            std::copy_n(stream, width, branch);
            if (kept) vector_kernels().multiply(branch, kept, width);
            dbranch.store(i, branch, width);
        }
    });
}

void norm_backward(device::Context& context, const ResidualNormBackward& a) {
    const i64 width = a.dy[1];
    const bool centred = spec::is_centred(a.norm);
    const FactorRows factors(a.dropout, a.dy[0], width);
    device::WorkspaceArena scratch = arena_of(context.workspace);
    const float* const weight = column_factors(a.weight, a.one_plus, scratch);
    const ScratchRows rows(scratch, pool_of(context).size(), width);
    const Source dy(a.dy);
    const Source sum(a.sum);
    const Source dsum_in(a.dsum_in);
    const Target dsum(a.dsum);
    const Target dbranch(a.dbranch);
    // Columns [0, width) are dweight, columns [width, 2 width) are dbias.
    ColumnSums sums(context, a.dy[0], 2 * width, scratch);
    sums.for_blocks([&](i64 begin, i64 end, float* partial, int worker) {
        std::fill(partial, partial + 2 * width, 0.0F);
        for (i64 n = begin; n < end; ++n) {
            const i64 i = n * width;
            // A 16-bit dsum is computed in the scratch row to which dsum_in was widened. This is
            // safe, because each element is read before it is written.
            float* const stream = rows.row(worker, 3);
            const NormBackwardRow row{
                .dy = dy.row(i, width, rows.row(worker, 1)),
                .sum = sum.row(i, width, rows.row(worker, 2)),
                .weight = weight,
                .mean = centred ? a.mean.as<float>()[n] : 0.0F,
                .rstd = a.rstd.as<float>()[n],
                .centred = centred,
                .dsum_in = dsum_in.row(i, width, stream),
                .dsum = dsum.row(i, stream),
                .factors = dbranch ? factors.compute(n, rows.row(worker, 0)) : nullptr,
                .dbranch = dbranch.row(i, rows.row(worker, 4)),
                .dweight = partial,
                .dbias = partial + width};
            vector_kernels().norm_backward_row(row, width);
            dsum.store(i, row.dsum, width);
            dbranch.store(i, row.dbranch, width);
        }
    });
    sums.reduce();
    sums.put(a.dweight.as<float>(), 0, width, a.accumulate);
    if (a.dbias) sums.put(a.dbias.as<float>(), width, width, a.accumulate);
}

}  // namespace

void residual_norm_backward(device::Context& context, const ResidualNormBackward& a) {
    if (!is_fast_type(a.dsum.dtype)) no_such_type(a.dsum.dtype);
    a.dy ? norm_backward(context, a) : join_backward(context, a);
    if (!a.dbranch_bias) return;
    ColumnSums sums(context, a.dsum[0], a.dsum[1]);
    sums.add_rows(a.dbranch ? a.dbranch : a.dsum);
    sums.finish(a.dbranch_bias.as<float>(), a.accumulate);
}

}  // namespace fast
}  // namespace lm::cpu
