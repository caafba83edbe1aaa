// SPDX-License-Identifier: Apache-2.0
// RMSNorms over all heads of the query and over all heads of the key.
#include <algorithm>
#include <cmath>

#include "cpu/column_sums.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::JointNormBackward;
using device::JointNormForward;
using device::JointNormSums;
using device::View;

// The columns of the query or of the key in each row of a matrix.
struct Part {
    int number;   // row of the sums: 0 query, 1 key
    i64 first;    // column
    i64 width;    // columns
    View weight;  // [width] compute, or none
};

struct Parts {
    Part query, key;
};

template <typename Args>
Parts parts_of(const Args& a) {
    const i64 query = a.query_weight[0];
    return {{0, 0, query, a.query_weight}, {1, query, a.key_weight[0], a.key_weight}};
}
Parts parts_of(const JointNormSums& a) {
    return {{0, 0, a.query, a.query_weight}, {1, a.query, a.key, a.key_weight}};
}

// Returns 1 / rms of a row of `width` columns, of which this rank has the given share.
double rstd_of(double squares, i64 width, double share, double eps) {
    return 1.0 / std::sqrt(squares * share / static_cast<double>(width) + eps);
}

template <typename T>
void sums(const JointNormSums& a, const Part& part) {
    const double offset = device::norm_offset(a.one_plus);
    const T* const weight = maybe<T>(part.weight);
    const i64 n_rows = a.sums[1];
    for (i64 row = 0; row < n_rows; ++row) {
        const T* const x = a.a.as<T>() + row * a.a[2] + part.first;
        const T* const y = a.b.as<T>() + row * a.a[2] + part.first;
        double sum = 0;
        for (i64 i = 0; i < part.width; ++i) sum += x[i] * y[i] * (weight ? weight[i] + offset : 1);
        a.sums.as<T>()[part.number * n_rows + row] = static_cast<T>(sum);
    }
}

template <typename T>
void forward(const JointNormForward& a, const Part& part) {
    const double offset = device::norm_offset(a.one_plus);
    const i64 n_rows = a.squares[1];
    for (i64 row = 0; row < n_rows; ++row) {
        const i64 at = row * a.x[2] + part.first;
        const double rstd =
            rstd_of(a.squares.as<T>()[part.number * n_rows + row], part.width, a.share, a.eps);
        for (i64 i = 0; i < part.width; ++i) {
            const double scaled = a.x.as<T>()[at + i] * rstd;
            a.y.as<T>()[at + i] = static_cast<T>(scaled * (part.weight.as<T>()[i] + offset));
        }
    }
}

// With n the width of a row over all ranks, r = 1 / rms and g = dy * (weight + offset), dx is r * g
// - x * r^3 / n * sum(g * x). dweight: [width] fp32.
template <typename T>
void backward(const JointNormBackward& a, const Part& part, const View& dweight) {
    const double offset = device::norm_offset(a.one_plus);
    const i64 n_rows = a.squares[1];
    if (!a.accumulate) std::fill_n(dweight.as<T>(), part.width, T{0});
    for (i64 row = 0; row < n_rows; ++row) {
        const i64 at = row * a.x[2] + part.first;
        const i64 sum = part.number * n_rows + row;
        const double rstd = rstd_of(a.squares.as<T>()[sum], part.width, a.share, a.eps);
        const double n = static_cast<double>(part.width) / a.share;
        const double slope = rstd * rstd * rstd * a.products.as<T>()[sum] / n;
        for (i64 i = 0; i < part.width; ++i) {
            const double x = a.x.as<T>()[at + i];
            const double dy = a.dy.as<T>()[at + i];
            T& sum_of_column = dweight.as<T>()[i];
            sum_of_column = static_cast<T>(sum_of_column + dy * x * rstd);
            const double g = dy * (part.weight.as<T>()[i] + offset);
            a.dx.as<T>()[at + i] = static_cast<T>(rstd * g - x * slope);
        }
    }
}

// Copies the columns from `first` on of each row of x to y. x, y: [B, T, W] compute.
template <typename T>
void copy_values(const View& x, const View& y, i64 first) {
    if (x.data == y.data) return;
    for (i64 at = first; at < x.numel(); at += x[2])
        std::copy_n(x.as<T>() + at, x[2] - first, y.as<T>() + at);
}

}  // namespace

namespace reference {

void joint_norm_sums(device::Context&, const JointNormSums& a) {
    const Parts parts = parts_of(a);
    with_type(a.a.dtype, [&]<typename T>(T) {
        sums<T>(a, parts.query);
        sums<T>(a, parts.key);
    });
}

void joint_norm_forward(device::Context&, const JointNormForward& a) {
    const Parts parts = parts_of(a);
    with_type(a.x.dtype, [&]<typename T>(T) {
        forward<T>(a, parts.query);
        forward<T>(a, parts.key);
        copy_values<T>(a.x, a.y, parts.key.first + parts.key.width);
    });
}

void joint_norm_backward(device::Context&, const JointNormBackward& a) {
    const Parts parts = parts_of(a);
    with_type(a.x.dtype, [&]<typename T>(T) {
        backward<T>(a, parts.query, a.dquery_weight);
        backward<T>(a, parts.key, a.dkey_weight);
        copy_values<T>(a.dy, a.dx, parts.key.first + parts.key.width);
    });
}

}  // namespace reference

namespace fast {
namespace {

constexpr i64 grain = 16;  // rows

// Writes weight + offset, [n] from column `begin` of the part, to `factors`.
void read_factors(const Part& part, i64 begin, i64 n, float offset, float* factors) {
    Source(part.weight).copy(begin, 1.0F, factors, n);
    for (i64 i = 0; i < n; ++i) factors[i] += offset;
}

// Copies the columns from `first` on of row `row` of x to y. x, y: [B, T, W] compute.
void copy_values(const View& x, const View& y, i64 row, i64 first) {
    if (x.data == y.data) return;
    float scratch[row_piece];
    for_pieces(x[2] - first, [&](i64 begin, i64 n) {
        const i64 at = row * x[2] + first + begin;
        const Target target(y);
        float* const to = target.row(at, scratch);
        Source(x).copy(at, 1.0F, to, n);
        target.store(at, to, n);
    });
}

float sum_of_row(const JointNormSums& a, const Part& part, i64 row) {
    const VectorKernels& kernels = vector_kernels();
    const float offset = device::norm_offset(a.one_plus);
    float scratch[3][row_piece];
    double sum = 0;
    for_pieces(part.width, [&](i64 begin, i64 n) {
        const i64 at = row * a.a[2] + part.first + begin;
        const float* x = Source(a.a).row(at, n, scratch[0]);
        const float* const y = a.a.data == a.b.data ? x : Source(a.b).row(at, n, scratch[1]);
        if (part.weight) {
            read_factors(part, begin, n, offset, scratch[2]);
            kernels.multiply(scratch[2], x, n);
            x = scratch[2];
        }
        sum += kernels.dot(x, y, n);
    });
    return static_cast<float>(sum);
}

void forward_row(const JointNormForward& a, const Part& part, i64 row) {
    const auto rstd = static_cast<float>(rstd_of(
        a.squares.as<float>()[part.number * a.squares[1] + row], part.width, a.share, a.eps));
    const float offset = device::norm_offset(a.one_plus);
    float scratch[2][row_piece];
    for_pieces(part.width, [&](i64 begin, i64 n) {
        const i64 at = row * a.x[2] + part.first + begin;
        const Target y(a.y);
        float* const to = y.row(at, scratch[0]);
        read_factors(part, begin, n, offset, scratch[1]);
        Source(a.x).copy(at, rstd, to, n);
        vector_kernels().multiply(to, scratch[1], n);
        y.store(at, to, n);
    });
}

// Adds the terms of one row to `dweight`, [width].
void backward_row(const JointNormBackward& a, const Part& part, i64 row, float* dweight) {
    const i64 sum = part.number * a.squares[1] + row;
    const double r = rstd_of(a.squares.as<float>()[sum], part.width, a.share, a.eps);
    const double n_columns = static_cast<double>(part.width) / a.share;
    const auto slope = static_cast<float>(r * r * r * a.products.as<float>()[sum] / n_columns);
    const auto rstd = static_cast<float>(r);
    const float offset = device::norm_offset(a.one_plus);
    float scratch[4][row_piece];
    for_pieces(part.width, [&](i64 begin, i64 n) {
        const i64 at = row * a.x[2] + part.first + begin;
        const float* const x = Source(a.x).row(at, n, scratch[0]);
        const float* const dy = Source(a.dy).row(at, n, scratch[1]);
        float* const factors = scratch[2];
        read_factors(part, begin, n, offset, factors);
        const Target dx(a.dx);
        float* const to = dx.row(at, scratch[3]);
        for (i64 i = 0; i < n; ++i) {  // `to` may be `dy`
            dweight[begin + i] += dy[i] * x[i] * rstd;
            to[i] = rstd * dy[i] * factors[i] - x[i] * slope;
        }
        dx.store(at, to, n);
    });
}

}  // namespace

void joint_norm_sums(device::Context& context, const JointNormSums& a) {
    if (!is_fast_type(a.a.dtype)) no_such_type(a.a.dtype);
    const Parts parts = parts_of(a);
    const i64 n_rows = a.sums[1];
    auto* const to = a.sums.as<float>();
    pool_of(context).run_ranges(n_rows, grain, [&](i64 begin, i64 end, int) {
        for (i64 row = begin; row < end; ++row) {
            to[row] = sum_of_row(a, parts.query, row);
            to[n_rows + row] = sum_of_row(a, parts.key, row);
        }
    });
}

void joint_norm_forward(device::Context& context, const JointNormForward& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const Parts parts = parts_of(a);
    pool_of(context).run_ranges(a.squares[1], grain, [&](i64 begin, i64 end, int) {
        for (i64 row = begin; row < end; ++row) {
            forward_row(a, parts.query, row);
            forward_row(a, parts.key, row);
            copy_values(a.x, a.y, row, parts.key.first + parts.key.width);
        }
    });
}

void joint_norm_backward(device::Context& context, const JointNormBackward& a) {
    if (!is_fast_type(a.x.dtype)) no_such_type(a.x.dtype);
    const Parts parts = parts_of(a);
    const i64 width = parts.query.width + parts.key.width;
    ColumnSums sums(context, a.squares[1], width);
    sums.for_blocks([&](i64 begin, i64 end, float* partial, int) {
        std::fill_n(partial, width, 0.0F);
        for (i64 row = begin; row < end; ++row) {
            backward_row(a, parts.query, row, partial);
            backward_row(a, parts.key, row, partial + parts.query.width);
            copy_values(a.dy, a.dx, row, width);
        }
    });
    sums.reduce();
    sums.put(a.dquery_weight.as<float>(), 0, parts.query.width, a.accumulate);
    sums.put(a.dkey_weight.as<float>(), parts.query.width, parts.key.width, a.accumulate);
}

}  // namespace fast
}  // namespace lm::cpu
