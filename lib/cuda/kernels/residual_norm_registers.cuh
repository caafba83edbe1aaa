// SPDX-License-Identifier: Apache-2.0
// Dropout, residual sum and norm backward in one pass, for rows that fit into the registers of a
// block. Part of residual_norm_backward.cu.
//
// A row has blockDim.x threads. A block processes blockDim.y rows at a time, and a range of
// block_rows rows in all. A thread has the same columns in every row: `steps` steps of W columns.
// So it sums the parameter gradients of its columns in registers, and the block writes one partial
// sum per column at the end. A thread loads dy and sum of its next row before it waits in sum_row()
// for the other threads of its row. With max_steps steps per row the registers are full. Then the
// thread loads dy and sum at the start of the row, and computes StepValues twice instead of keeping
// them.
#pragma once

#include <algorithm>

#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/residual_norm.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::Norm;
using device::ResidualNormBackward;

// Arguments of all backward kernels, also of the general ones; see device::ResidualNormBackward.
template <typename T>
struct Backward {
    const T* dy;        // [rows, width]
    const T* sum;       // [rows, width]
    const T* weight;    // [width]
    const float* mean;  // [rows]; nullptr: RMSNorm
    const float* rstd;  // [rows]
    const T* dsum_in;   // [rows, width] or nullptr
    T* dsum;            // [rows, width]
    T* dbranch;         // [rows, width] or nullptr
    i64 rows;
    i64 width;
    float offset;      // added to the weights
    bool sums_branch;  // also sums the gradient of the branch over rows
    RowDropout dropout;
};

template <typename T>
Backward<T> kernel_arguments(const ResidualNormBackward& a) {
    const bool centred = spec::is_centred(a.norm);
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
            .offset = device::norm_offset(a.one_plus),
            .sums_branch = a.dbranch_bias.data != nullptr,
            .dropout = RowDropout(a.dropout, a.dsum[0], a.dsum[1])};
}

// Adds the partial sums parts[n_parts][n_sums][C] to dweight and dbias and, if n_sums is 3, to
// dbranch_bias.
inline void add_parameter_gradients(cudaStream_t stream, const ResidualNormBackward& a,
                                    const float* parts, i64 n_parts, int n_sums) {
    const i64 width = a.dsum[1];
    add_parts(stream, {parts, n_parts, n_sums * width, n_sums * width},
              {.to = {pointer<float>(a.dweight), pointer<float>(a.dbias),
                      n_sums == 3 ? pointer<float>(a.dbranch_bias) : nullptr},
               .width = width},
              a.accumulate);
}

// ---- Kernel ------------------------------------------------------------------------------------

constexpr int W = row_step;
constexpr int register_threads = 256;
constexpr int max_steps = 4;  // steps of a thread in one row
// Returns the number of blocks that must fit on an SM at once. __launch_bounds__ passes it to the
// compiler, which then limits the registers of each thread.
constexpr int resident_blocks(int steps, bool with_dropout) {
    return steps == 1 ? with_dropout ? 2 : 3 : 1;
}

template <typename T>
using RowPack = Pack<T, W>;

// column_of() returns the first column of a thread's step; has_column() returns whether this column
// exists.
__device__ inline u32 column_of(int step) {
    return (threadIdx.x + static_cast<u32>(step) * blockDim.x) * W;
}
template <typename T>
__device__ bool has_column(const Backward<T>& a, int step) {
    return column_of(step) < static_cast<u32>(a.width);
}

// The rows of a block: pointers to the first row, and the number of rows. Offsets from these
// pointers fit into 32 bits, which halves the registers for addresses.
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
    // Returns the offset of the thread's step number `step` in row `row`.
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

// A thread's elements of one row of dy and sum. They stay in the 16-bit storage type, which needs
// half the registers of fp32.
template <typename T, int steps>
struct RowPieces {
    RowPack<T> dy[steps];
    RowPack<T> sum[steps];
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

// The values of one step, in fp32: dy, xhat = (sum - mean) * rstd, g = dy * (weight + offset).
struct StepValues {
    float dy[W];
    float xhat[W];
    float g[W];
};
template <typename T, int steps>
__device__ StepValues values_of(const RowPieces<T, steps>& pieces, const RowPack<T>& weight,
                                float offset, int s) {
    StepValues values{};
    pieces.dy[s].get(values.dy);
    pieces.sum[s].get(values.xhat);
    weight.get(values.g);
#pragma unroll
    for (int k = 0; k < W; ++k) {
        values.xhat[k] = (values.xhat[k] - pieces.mean) * pieces.rstd;
        values.g[k] = (values.g[k] + offset) * values.dy[k];
    }
    return values;
}

// A thread's sums of the branch's gradient, one for each of its columns. They are in shared memory,
// after the sums of write_parts(), because the registers are full. They are stored in groups of
// four columns, so that adjacent threads access adjacent 16 bytes.
constexpr int group = 4;
static_assert(W % group == 0);

template <int steps>
class BranchSums {
  public:
    __device__ explicit BranchSums(i64 width)
        : all_(dynamic_shared<float>() + 2 * width),
          own_(all_ + group * (threadIdx.y * blockDim.x + threadIdx.x)),
          stride_(group * blockDim.x * blockDim.y) {}
    __device__ void clear() {
        for (int i = 0; i < steps * W / group; ++i) {
            const float zeros[group] = {};
            store<group>(own_ + i * stride_, zeros);
        }
    }
    __device__ void add(int step, const float (&d)[W]) {
#pragma unroll
        for (int i = 0; i < W / group; ++i) {
            float* const at = own_ + (step * W / group + i) * stride_;
            float sum[group];
            load<group>(at, sum);
#pragma unroll
            for (int k = 0; k < group; ++k) sum[k] += d[i * group + k];
            store<group>(at, sum);
        }
    }
    // Returns the sum of a column over the rows of the block, in the order of threadIdx.y. Needs a
    // barrier after add().
    __device__ float of_column(u32 column) const {
        const u32 pack = column / W;
        const u32 step = pack / blockDim.x;
        const float* const first = all_ + (step * W + column % W) / group * stride_ +
                                   group * (pack % blockDim.x) + column % group;
        float sum = 0.0F;
        for (u32 y = 0; y < blockDim.y; ++y) sum += first[group * y * blockDim.x];
        return sum;
    }

  private:
    float* all_;
    float* own_;
    u32 stride_;
};

// Writes sums over the block's rows to parts[blockIdx.x][2 or 3][width]: dweight, dbias and, with
// sums_branch, the gradient of the branch. The blockDim.y threads of a column add to shared memory
// one after another, with a barrier in between, so the order of the sum is fixed.
template <int steps>
__device__ void write_parts(float* parts, i64 width, const float (&dweight)[steps][W],
                            const float (&dbias)[steps][W], const BranchSums<steps>& branch,
                            bool sums_branch) {
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
    const i64 threads = i64{blockDim.x} * blockDim.y;
    parts += blockIdx.x * (sums_branch ? 3 : 2) * width;
    for (i64 i = thread; i < 2 * width; i += threads) parts[i] = shared[i];
    if (!sums_branch) return;
    for (i64 i = thread; i < width; i += threads) {
        parts[2 * width + i] = branch.of_column(static_cast<u32>(i));
    }
}

// Block b processes rows b * block_rows to (b + 1) * block_rows - 1, blockDim.y at a time. All
// threads run the same number of iterations, also without a row (`on` false), because sum_row() has
// a barrier. dsum may alias dsum_in or sum, because a thread loads its elements of a row before it
// stores them, and the elements that it loads ahead are of another row.
template <typename T, int steps, bool with_dropout>
__global__ void __launch_bounds__(register_threads, resident_blocks(steps, with_dropout))
    backward_in_registers(const Backward<T> a, float* parts, i64 block_rows) {
    const i64 begin = blockIdx.x * block_rows;
    const BlockRows<T> block(a, begin, block_rows);
    const float share = 1.0F / static_cast<float>(a.width);
    RowPack<T> weights[steps];
#pragma unroll
    for (int s = 0; s < steps; ++s) {
        if (has_column(a, s)) weights[s] = load_pack(a.weight + column_of(s));
    }
    float dweight[steps][W] = {};
    float dbias[steps][W] = {};
    BranchSums<steps> branch(a.width);
    if (a.sums_branch) branch.clear();
    constexpr bool ahead = steps < max_steps;
    RowPieces<T, steps> pieces;
    u32 row = threadIdx.y;
    if (ahead && row < block.n) pieces.read(a, block, row);
    for (u32 first = 0, turn = 0; first < block.n;
         first += blockDim.y, row += blockDim.y, turn ^= 1) {
        const bool on = row < block.n;
        if (!ahead && on) pieces.read(a, block, row);
        RowPack<T> dsum_in[steps] = {};
        StepValues values[steps] = {};
        float sums[2] = {0.0F, 0.0F};  // sums of g and of g * xhat
#pragma unroll
        for (int s = 0; s < steps; ++s) {
            if (!on || !has_column(a, s)) continue;
            if (a.dsum_in) dsum_in[s] = load_pack(block.dsum_in + block.at(a, row, s));
            values[s] = values_of(pieces, weights[s], a.offset, s);
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
            // Recomputes the values, because keeping them would exceed the registers.
            if (!ahead) values[s] = values_of(pieces, weights[s], a.offset, s);
            float d[W];
            dsum_in[s].get(d);
#pragma unroll
            for (int k = 0; k < W; ++k) {
                d[k] += rstd * (values[s].g[k] - mean_g - values[s].xhat[k] * mean_gx);
            }
            const u32 at = block.at(a, row, s);
            store<W>(block.dsum + at, d);
            if (a.dbranch) {
                if constexpr (with_dropout) {
                    DropoutRow(a.dropout, begin + row).apply(column_of(s), d);
                }
                store<W>(block.dbranch + at, d);
            }
            if (a.sums_branch) branch.add(s, d);
        }
    }
    write_parts<steps>(parts, a.width, dweight, dbias, branch, a.sums_branch);
}

// ---- Launch ------------------------------------------------------------------------------------

template <typename T, int steps, bool with_dropout>
void run_in_registers(device::Context& context, const ResidualNormBackward& a) {
    const Backward<T> args = kernel_arguments<T>(a);
    const int threads = row_threads(ceil_div(args.width / W, i64{steps}), register_threads);
    const i64 at_once = register_threads / threads;  // rows that a block processes at a time
    const i64 at_a_time = i64{resident_blocks(steps, with_dropout)} *
                          device_of(context).properties().multiProcessorCount;
    const i64 n_blocks = std::min(at_a_time, cost::norm_gradient_parts);
    const i64 block_rows = round_up(ceil_div(args.rows, n_blocks), at_once);
    const i64 n_parts = ceil_div(args.rows, block_rows);
    const int n_sums = args.sums_branch ? 3 : 2;
    float* const parts = arena_of(context.workspace).reserve<float>(n_parts * n_sums * args.width);
    const i64 branch_floats = args.sums_branch ? threads * at_once * steps * W : 0;
    launch(stream_of(context), backward_in_registers<T, steps, with_dropout>,
           blocks_for(n_parts, 1),
           dim3(static_cast<unsigned>(threads), static_cast<unsigned>(at_once)),
           static_cast<size_t>(2 * args.width + branch_floats) * sizeof(float), args, parts,
           block_rows);
    add_parameter_gradients(stream_of(context), a, parts, n_parts, n_sums);
}

}  // namespace
}  // namespace lm::cuda
