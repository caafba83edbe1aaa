// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm backward. With xhat = (sum - mean) * rstd and g = dy * weight:
// norm'(dy) = rstd * (g - mean(g) - xhat * mean(g * xhat)); RMSNorm has no mean(g) term. dweight
// has the column sums of dy * xhat, dbias has the column sums of dy, and dbranch_bias has the
// column sums of dbranch, or of dsum if there is no dbranch.
//
// There are two implementations. Rows of 16-bit types that fit into the registers of a block are
// read once (residual_norm_registers.cuh). All other rows (fp32, long rows, widths that are not a
// multiple of 8, unaligned addresses) are processed by the general kernels below: one for the
// parameter gradients, then one for dsum and dbranch, each of which reads dy and sum.
#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/residual_norm.cuh"
#include "cuda/kernels/residual_norm_registers.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

// ---- In general --------------------------------------------------------------------------------

constexpr int general_threads = 512;

// Writes dweight and dbias, summed over the rows of a block, to parts[blockIdx.y][2][a.width]
// (column_sums.cuh).
template <typename T, int width>
__global__ void parameter_gradients(const Backward<T> a, float* parts) {
    sum_columns<2, width>(a.rows, a.width, parts, [&](i64 row, i64 column, float(&sums)[2][width]) {
        float x[width];
        float dy[width];
        load<width>(a.sum + row * a.width + column, x);
        load<width>(a.dy + row * a.width + column, dy);
        const float mean = a.mean ? a.mean[row] : 0.0F;
        const float rstd = a.rstd[row];
#pragma unroll
        for (int k = 0; k < width; ++k) {
            sums[0][k] += dy[k] * ((x[k] - mean) * rstd);
            sums[1][k] += dy[k];
        }
    });
}

// Block r computes dsum and dbranch of row r in two passes over its columns: first the sums of g
// and of g * xhat, then the outputs. dsum may alias dsum_in or sum: in the second pass, the thread
// that writes an element reads it first.
template <typename T, int width>
__global__ void backward_rows(const Backward<T> a) {
    const i64 row = blockIdx.x;
    const i64 at = row * a.width;
    const i64 step = i64{blockDim.x} * width;
    const float mean = a.mean ? a.mean[row] : 0.0F;
    const float rstd = a.rstd[row];
    const DropoutRow dropout(a.dropout, row);
    float xhat[width];
    float g[width];
    const auto read = [&](i64 column) {
        float weight[width];
        load<width>(a.sum + at + column, xhat);
        load<width>(a.dy + at + column, g);
        load<width>(a.weight + column, weight);
#pragma unroll
        for (int k = 0; k < width; ++k) {
            xhat[k] = (xhat[k] - mean) * rstd;
            g[k] *= weight[k] + a.offset;
        }
    };
    float sums[2] = {0.0F, 0.0F};
    for (i64 column = i64{threadIdx.x} * width; column < a.width; column += step) {
        read(column);
#pragma unroll
        for (int k = 0; k < width; ++k) {
            sums[0] += g[k];
            sums[1] += g[k] * xhat[k];
        }
    }
    sum_row<general_threads>(sums, 0);
    const float mean_g = a.mean ? sums[0] / static_cast<float>(a.width) : 0.0F;
    const float mean_gx = sums[1] / static_cast<float>(a.width);
    for (i64 column = i64{threadIdx.x} * width; column < a.width; column += step) {
        read(column);
        float d[width] = {};
        if (a.dsum_in) load<width>(a.dsum_in + at + column, d);
#pragma unroll
        for (int k = 0; k < width; ++k) d[k] += rstd * (g[k] - mean_g - xhat[k] * mean_gx);
        store<width>(a.dsum + at + column, d);
        if (!a.dbranch) continue;
        dropout.apply(column, d);
        store<width>(a.dbranch + at + column, d);
    }
}

// Without a norm: dsum = dsum_in; dbranch = dropout'(dsum).
template <typename T, int width>
__global__ void join_backward(const Backward<T> a) {
    const i64 row = blockIdx.x;
    const i64 column = first_column<width>();
    if (column >= a.width) return;
    const DropoutRow dropout(a.dropout, row);
    float d[width];
    load<width>(a.dsum_in + row * a.width + column, d);
    store<width>(a.dsum + row * a.width + column, d);
    if (!a.dbranch) return;
    dropout.apply(column, d);
    store<width>(a.dbranch + row * a.width + column, d);
}

// ---- Launches ----------------------------------------------------------------------------------

// Computes dbranch_bias, the column sums of the branch's gradient. A previous kernel in the stream
// writes this gradient.
void sum_branch(device::Context& context, const ResidualNormBackward& a) {
    if (!a.dbranch_bias) return;
    column_sums(stream_of(context), context.workspace, a.dbranch ? a.dbranch : a.dsum,
                pointer<float>(a.dbranch_bias), a.accumulate);
}

template <typename T, int width>
void run_in_general(device::Context& context, const ResidualNormBackward& a) {
    const Backward<T> args = kernel_arguments<T>(a);
    const cudaStream_t stream = stream_of(context);
    const i64 n_parts = cost::column_sum_parts(args.rows);
    const i64 n_steps = ceil_div(args.width, width);
    float* const parts = arena_of(context.workspace)
                             .reserve<float>(cost::column_sum_floats(args.rows, 2 * args.width));
    // This kernel must run before backward_rows, which may overwrite sum.
    launch(stream, parameter_gradients<T, width>, sum_grid(args.rows, n_steps), sum_block(), 0,
           args, parts);
    launch(stream, backward_rows<T, width>, blocks_for(args.rows, 1),
           row_threads(n_steps, general_threads), 0, args);
    add_parameter_gradients(stream, a, parts, n_parts, 2);
    sum_branch(context, a);
}

template <typename T, int width>
void run(device::Context& context, const ResidualNormBackward& a) {
    if constexpr (width == row_step && sizeof(T) == 2) {
        const i64 n_steps = a.dy[1] / width;
        const auto in_registers = [&]<int steps>(std::integral_constant<int, steps>) {
            if (a.dropout.on()) return run_in_registers<T, steps, true>(context, a);
            run_in_registers<T, steps, false>(context, a);
        };
        if (n_steps <= register_threads) return in_registers(Width<1>{});
        if (n_steps <= 2 * register_threads) return in_registers(Width<2>{});
        if (n_steps <= max_steps * register_threads) return in_registers(Width<max_steps>{});
    }
    run_in_general<T, width>(context, a);
}

template <typename T, int width>
void run_join(device::Context& context, const ResidualNormBackward& a) {
    const RowGrid grid = row_grid(a.dsum[0], ceil_div(a.dsum[1], width));
    launch(stream_of(context), join_backward<T, width>, grid.blocks, grid.threads, 0,
           kernel_arguments<T>(a));
    sum_branch(context, a);
}

}  // namespace

namespace ops {

void residual_norm_backward(device::Context& context, const ResidualNormBackward& a) {
    const auto views = {a.dy, a.sum, a.weight, a.dsum_in, a.dsum, a.dbranch};
    with_row_width(a.dsum.dtype, a.dsum[1], views, [&]<typename T, int width>(T, Width<width>) {
        if (!a.dy) return run_join<T, width>(context, a);
        run<T, width>(context, a);
    });
}

}  // namespace ops
}  // namespace lm::cuda
