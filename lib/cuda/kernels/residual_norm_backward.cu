// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm backward. With xhat = (sum - mean) * rstd and g = dy * weight:
// norm'(dy) = rstd * (g - mean(g) - xhat * mean(g * xhat)); RMSNorm has no mean(g) term. dweight
// and dbias are the column sums of dy * xhat and dy.
//
// Rows of 16-bit types that fit into the registers of a block: one reading of everything. A row has
// blockDim.x threads, a block blockDim.y rows at a time; a thread always has the same columns,
// whose parameter gradients it sums in registers, and asks for its next dy and sum before it waits
// for the others (not with the most steps a row: the registers are full). All else (fp32, long
// rows, widths that 8 does not divide): first the parameter gradients, which read both once more.
#include <algorithm>

#include "cuda/cuda_device.hpp"
#include "cuda/kernels/column_sums.cuh"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/residual_norm.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/ops.hpp"

namespace lm::cuda {
namespace {

using device::Norm;
using device::ResidualNormBackward;

template <typename T>
struct Backward {
    const T* dy;
    const T* sum;
    const T* weight;
    const float* mean;  // nullptr: RMSNorm
    const float* rstd;
    const T* dsum_in;
    T* dsum;
    T* dbranch;
    i64 rows;
    i64 width;
    RowDropout dropout;
};

// ---- In registers ------------------------------------------------------------------------------

constexpr int W = row_step;
constexpr int register_threads = 256;
constexpr int most_steps = 4;  // of a thread in a row
// Blocks that a multiprocessor is to have room for.
constexpr int resident_blocks(int steps, bool with_dropout) {
    return steps == 1 ? with_dropout ? 2 : 3 : 1;
}

template <typename T>
using Piece = Pack<T, W>;

// The column of a thread's step; has the row one there?
__device__ inline u32 column_of(int step) {
    return (threadIdx.x + static_cast<u32>(step) * blockDim.x) * W;
}
template <typename T>
__device__ bool has_column(const Backward<T>& a, int step) {
    return column_of(step) < static_cast<u32>(a.width);
}

// A block's share: where its first row lies, from which on 32 bits are enough, and how many it has.
template <typename T>
struct BlockRows {
    __device__ BlockRows(const Backward<T>& a, i64 begin, i64 most)
        : dy(a.dy + begin * a.width),
          sum(a.sum + begin * a.width),
          mean(a.mean + begin),
          rstd(a.rstd + begin),
          dsum_in(a.dsum_in + begin * a.width),
          dsum(a.dsum + begin * a.width),
          dbranch(a.dbranch + begin * a.width),
          n(static_cast<u32>(a.rows - begin < most ? a.rows - begin : most)) {}
    // Where the thread's step of a row begins.
    __device__ u32 at(const Backward<T>& a, u32 row, int step) const {
        return row * static_cast<u32>(a.width) + column_of(step);
    }
    const T* dy;
    const T* sum;
    const float* mean;
    const float* rstd;
    const T* dsum_in;
    T* dsum;
    T* dbranch;
    u32 n;
};

// A thread's share of a row of dy and sum as it lies in memory.
template <typename T, int steps>
struct RowPieces {
    Piece<T> dy[steps];
    Piece<T> sum[steps];
    float mean = 0.0F;
    float rstd = 0.0F;

    __device__ void read(const Backward<T>& a, const BlockRows<T>& block, u32 row) {
        if (a.mean) mean = block.mean[row];
        rstd = block.rstd[row];
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            if (!has_column(a, s)) continue;
            const u32 at = block.at(a, row, s);
            dy[s] = load_pack(block.dy + at);
            sum[s] = load_pack(block.sum + at);
        }
    }
};

// A step of it.
struct StepValues {
    float dy[W];
    float xhat[W];
    float g[W];
};
template <typename T, int steps>
__device__ StepValues values_of(const RowPieces<T, steps>& pieces, const Piece<T>& weight, int s) {
    StepValues values{};
    pieces.dy[s].get(values.dy);
    pieces.sum[s].get(values.xhat);
    weight.get(values.g);
#pragma unroll
    for (int k = 0; k < W; ++k) {
        values.xhat[k] = (values.xhat[k] - pieces.mean) * pieces.rstd;
        values.g[k] *= values.dy[k];
    }
    return values;
}

// The rows' sums of a block, one after the other in y: parts[blockIdx.x][2][width].
template <int steps>
__device__ void write_parts(float* parts, i64 width, const float (&dweight)[steps][W],
                            const float (&dbias)[steps][W]) {
    float* const shared = dynamic_shared<float>();  // [2][width]
    for (unsigned y = 0; y < blockDim.y; ++y) {
        __syncthreads();
        if (threadIdx.y != y) continue;
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            const i64 column = (i64{threadIdx.x} + s * i64{blockDim.x}) * W;
            if (column >= width) continue;
#pragma unroll
            for (int k = 0; k < W; ++k) {
                float* const to = shared + column + k;
                to[0] = y == 0 ? dweight[s][k] : to[0] + dweight[s][k];
                to[width] = y == 0 ? dbias[s][k] : to[width] + dbias[s][k];
            }
        }
    }
    __syncthreads();
    const i64 thread = i64{threadIdx.y} * blockDim.x + threadIdx.x;
    for (i64 i = thread; i < 2 * width; i += i64{blockDim.x} * blockDim.y) {
        parts[blockIdx.x * 2 * width + i] = shared[i];
    }
}

template <typename T, int steps, bool with_dropout>
__global__ void __launch_bounds__(register_threads, resident_blocks(steps, with_dropout))
    backward_in_registers(const Backward<T> a, float* parts, i64 block_rows) {
    const i64 begin = blockIdx.x * block_rows;
    const BlockRows<T> block(a, begin, block_rows);
    const float share = 1.0F / static_cast<float>(a.width);
    Piece<T> weights[steps];
#pragma unroll
    for (int s = 0; s < steps; ++s) {
        if (has_column(a, s)) weights[s] = load_pack(a.weight + column_of(s));
    }
    float dweight[steps][W] = {};
    float dbias[steps][W] = {};
    constexpr bool ahead = steps < most_steps;
    RowPieces<T, steps> pieces;
    u32 row = threadIdx.y;
    if (ahead && row < block.n) pieces.read(a, block, row);
    for (u32 first = 0, turn = 0; first < block.n;
         first += blockDim.y, row += blockDim.y, turn ^= 1) {
        const bool on = row < block.n;
        if (!ahead && on) pieces.read(a, block, row);
        Piece<T> dsum_in[steps] = {};
        StepValues values[steps] = {};
        float sums[2] = {0.0F, 0.0F};  // of g and g * xhat
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            if (!on || !has_column(a, s)) continue;
            if (a.dsum_in) dsum_in[s] = load_pack(block.dsum_in + block.at(a, row, s));
            values[s] = values_of(pieces, weights[s], s);
#pragma unroll
            for (int k = 0; k < W; ++k) {
                sums[0] += values[s].g[k];
                sums[1] += values[s].g[k] * values[s].xhat[k];
                dweight[s][k] += values[s].dy[k] * values[s].xhat[k];
                dbias[s][k] += values[s].dy[k];
            }
        }
        const float rstd = pieces.rstd;
        if (ahead && row + blockDim.y < block.n) pieces.read(a, block, row + blockDim.y);
        sum_row<register_threads>(sums, turn);
        const float mean_g = a.mean ? sums[0] * share : 0.0F;
        const float mean_gx = sums[1] * share;
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            if (!on || !has_column(a, s)) continue;
            // Made again where they would take the registers.
            if (!ahead) values[s] = values_of(pieces, weights[s], s);
            float d[W];
            dsum_in[s].get(d);
#pragma unroll
            for (int k = 0; k < W; ++k) {
                d[k] += rstd * (values[s].g[k] - mean_g - values[s].xhat[k] * mean_gx);
            }
            const u32 at = block.at(a, row, s);
            store<W>(block.dsum + at, d);
            if (!a.dbranch) continue;
            if constexpr (with_dropout) DropoutRow(a.dropout, begin + row).apply(column_of(s), d);
            store<W>(block.dbranch + at, d);
        }
    }
    write_parts<steps>(parts, a.width, dweight, dbias);
}

// ---- In general --------------------------------------------------------------------------------

constexpr int general_threads = 512;

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
            g[k] *= weight[k];
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

template <typename T>
Backward<T> kernel_arguments(const ResidualNormBackward& a) {
    const bool centred = a.norm == Norm::layer_norm;
    return {.dy = pointer<T>(a.dy),
            .sum = pointer<T>(a.sum),
            .weight = pointer<T>(a.weight),
            .mean = centred ? pointer<float>(a.mean) : nullptr,
            .rstd = pointer<float>(a.rstd),
            .dsum_in = pointer<T>(a.dsum_in),
            .dsum = pointer<T>(a.dsum),
            .dbranch = pointer<T>(a.dbranch),
            .rows = a.dsum[0],
            .width = a.dsum[1],
            .dropout = RowDropout(a.dropout, a.dsum[0], a.dsum[1])};
}

void add_parameter_gradients(cudaStream_t stream, const ResidualNormBackward& a, const float* parts,
                             i64 n_parts) {
    const i64 width = a.dsum[1];
    add_parts(stream, {parts, n_parts, 2 * width, width}, pointer<float>(a.dweight), true);
    if (!a.dbias) return;
    add_parts(stream, {parts + width, n_parts, 2 * width, width}, pointer<float>(a.dbias), true);
}

template <typename T, int steps, bool with_dropout>
void run_in_registers(device::Context& context, const ResidualNormBackward& a) {
    const Backward<T> args = kernel_arguments<T>(a);
    const int threads = row_threads(ceil_div(args.width / W, i64{steps}), register_threads);
    const i64 at_once = register_threads / threads;
    const i64 at_a_time = i64{resident_blocks(steps, with_dropout)} *
                          device_of(context).properties().multiProcessorCount;
    const i64 n_blocks = std::min(at_a_time, cost::norm_gradient_parts);
    const i64 block_rows = round_up(ceil_div(args.rows, n_blocks), at_once);
    const i64 n_parts = ceil_div(args.rows, block_rows);
    float* const parts =
        Scratch(context.workspace).take<float>(cost::norm_gradient_floats(args.width));
    launch(stream_of(context), backward_in_registers<T, steps, with_dropout>,
           blocks_for(n_parts, 1),
           dim3(static_cast<unsigned>(threads), static_cast<unsigned>(at_once)),
           static_cast<size_t>(2 * args.width) * sizeof(float), args, parts, block_rows);
    add_parameter_gradients(stream_of(context), a, parts, n_parts);
}

template <typename T, int width>
void run_in_general(device::Context& context, const ResidualNormBackward& a) {
    const Backward<T> args = kernel_arguments<T>(a);
    const cudaStream_t stream = stream_of(context);
    const i64 n_parts = cost::column_sum_parts(args.rows);
    const i64 n_steps = ceil_div(args.width, width);
    float* const parts =
        Scratch(context.workspace).take<float>(cost::column_sum_floats(args.rows, 2 * args.width));
    // First: dsum may be sum.
    launch(stream, parameter_gradients<T, width>, sum_grid(args.rows, n_steps), sum_block(), 0,
           args, parts);
    launch(stream, backward_rows<T, width>, blocks_for(args.rows, 1),
           row_threads(n_steps, general_threads), 0, args);
    add_parameter_gradients(stream, a, parts, n_parts);
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
        if (n_steps <= most_steps * register_threads) return in_registers(Width<most_steps>{});
    }
    run_in_general<T, width>(context, a);
}

template <typename T, int width>
void run_join(device::Context& context, const ResidualNormBackward& a) {
    const RowGrid grid = row_grid(a.dsum[0], ceil_div(a.dsum[1], width));
    launch(stream_of(context), join_backward<T, width>, grid.blocks, grid.threads, 0,
           kernel_arguments<T>(a));
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
