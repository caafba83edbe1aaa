// SPDX-License-Identifier: Apache-2.0
// Cross-entropy over one rank's columns of the logits. One block processes a row. It computes the
// statistics in one pass (online softmax, Milakov & Gimelshein 2018), and the gradient in a second
// pass, which overwrites the logits. No fp32 copy of a row is stored. On a rank with all columns,
// one kernel performs both passes and keeps the row in shared memory, so that it reads the logits
// once.
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/shared.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::CrossEntropy;
using device::CrossEntropyBackward;
using device::CrossEntropyLoss;
using device::CrossEntropyRescale;
using device::CrossEntropyStats;

constexpr int row_threads = 512;
constexpr int flat_threads = 256;
constexpr float log2_e = 1.44269504088896341F;

// Returns the offset for exp(x - most) = 2^(x log2(e) - offset), so that the exponent is one fused
// multiply-add.
// When all values are -inf, the offset is 0, so that the powers are 0 and not NaN.
__device__ inline float offset_of(float most) {
    return most == -INFINITY ? 0.0F : most * log2_e;
}
__device__ inline float exp_below(float x, float offset) {
    return exp2_approximate(fmaf(x, log2_e, -offset));
}

// Calls turn.operator()<count>(begin) so that the threads of the block together cover the columns
// [0, n_columns) of a row. With an odd vocabulary size rows are not aligned to 16 bytes. Then the
// columns before the first aligned address and after the last whole access are processed one at a
// time.
template <typename T, typename Turn>
__device__ void for_columns(const T* row, i64 n_columns, const Turn& turn) {
    constexpr int width = per_access<T>;
    const int n = static_cast<int>(n_columns);
    const int thread = static_cast<int>(threadIdx.x);
    const int misaligned = static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % width);
    const int before = min(n, (width - misaligned) % width);
    const int end = before + (n - before) / width * width;
    if (thread < before) turn.template operator()<1>(thread);
    for (int at = before + thread * width; at < end; at += row_threads * width) {
        turn.template operator()<width>(at);
    }
    if (end + thread < n) turn.template operator()<1>(end + thread);
}

// Online softmax: the largest value so far and the sum of exp(x - most) over the values so far. A
// new maximum rescales the sum.
struct OnlineSum {
    float most = -INFINITY;
    float offset = 0;
    float sum = 0;
    template <int n>
    __device__ void add(const float (&x)[n]) {
        float largest = most;
        for (int i = 0; i < n; ++i) largest = maximum(largest, x[i]);
        if (largest != most) {
            offset = offset_of(largest);
            sum *= exp_below(most, offset);
            most = largest;
        }
        for (int i = 0; i < n; ++i) sum += exp_below(x[i], offset);
    }
};

// The statistics of a row. row_stats_of() computes them from the online sums of the block's
// threads: it takes the maximum over the threads, rescales every thread's sum to this maximum, and
// adds the sums.
struct RowStats {
    float most;
    float sum;
};
__device__ inline RowStats row_stats_of(const OnlineSum& own) {
    const float most = block_reduce<row_threads, Max>(own.most);
    const float share = own.sum * exp_below(own.most, offset_of(most));
    return {most, block_reduce<row_threads, Add>(share)};
}

// Block n computes the statistics of row n.
template <typename T>
__global__ void __launch_bounds__(row_threads)
    stats_kernel(const T* logits, i64 width, const i32* targets, i64 vocab_start, i64 n_valid,
                 float* row_max, float* row_sum, float* target_logit) {
    const i64 n = blockIdx.x;
    const T* const row = logits + n * width;
    OnlineSum own;
    for_columns(row, n_valid, [&]<int count>(int at) {
        float x[count];
        load(row + at, x);
        own.add(x);
    });
    const RowStats stats = row_stats_of(own);
    if (threadIdx.x != 0) return;
    const i64 target = targets[n] - vocab_start;
    row_max[n] = stats.most;
    row_sum[n] = stats.sum;
    target_logit[n] = target >= 0 && target < n_valid ? to_float(row[target]) : 0.0F;
}

// Writes factor * (softmax - one_hot) of a row of logits, [V], to `row`, [V]. Both have the same
// offset from a multiple of 16 bytes; `logits` may be `row`, because the thread that reads an
// element also writes it. Padding columns, from `valid` on, become 0. target: -1 for a target of
// another rank.
template <typename T>
__device__ void write_gradient(const T* logits, T* row, i64 width, int valid, int target,
                               const RowStats& stats, float factor) {
    const float offset = offset_of(stats.most);
    const float share = factor / stats.sum;
    for_columns(row, width, [&]<int count>(int at) {
        float x[count];
        load(logits + at, x);
        for (int i = 0; i < count; ++i) x[i] = share * exp_below(x[i], offset);
        if (static_cast<u32>(target - at) < count) {
            for (int i = 0; i < count; ++i) x[i] -= at + i == target ? factor : 0.0F;
        }
        if (at + count > valid) {
            for (int i = 0; i < count; ++i) x[i] = at + i < valid ? x[i] : 0.0F;
        }
        store(row + at, x);
    });
}

// Block n computes logits[n] = factor * (softmax - one_hot) in place, with factor = grad_scale *
// weight[n].
template <typename T>
__global__ void __launch_bounds__(row_threads)
    backward_kernel(T* logits, i64 width, const i32* targets, i64 vocab_start, i64 n_valid,
                    const float* row_max, const float* row_sum, const float* weight,
                    float grad_scale) {
    const i64 n = blockIdx.x;
    T* const row = logits + n * width;
    const i64 column = targets[n] - vocab_start;
    const int target = column >= 0 && column < n_valid ? static_cast<int>(column) : -1;
    write_gradient(row, row, width, static_cast<int>(n_valid), target, {row_max[n], row_sum[n]},
                   grad_scale * weight[n]);
}

// Returns the bytes of shared memory for a row of `width` elements, which may start at any offset
// within 16 bytes.
template <typename T>
i64 row_bytes(i64 width) {
    return width * static_cast<i64>(sizeof(T)) + 16;
}

// The arguments of the kernel that reads the logits once: statistics, losses and gradients.
template <typename T>
struct OnePass {
    T* logits;  // [N, width]
    i64 width;
    i64 n_valid;
    const i32* targets;   // [N]
    const float* weight;  // [N]
    float grad_scale;
    float* row_max;       // [N]
    float* row_sum;       // [N]
    float* target_logit;  // [N]
    float* losses;        // [N]
};

// Block n computes row n, and keeps it in shared memory (row_bytes()), at the alignment of the row.
template <typename T>
__global__ void __launch_bounds__(row_threads) one_pass_kernel(OnePass<T> a) {
    const i64 n = blockIdx.x;
    T* const row = a.logits + n * a.width;
    T* const kept =
        dynamic_shared<T>() + reinterpret_cast<uintptr_t>(row) / sizeof(T) % per_access<T>;
    OnlineSum own;
    for_columns(row, a.n_valid, [&]<int count>(int at) {
        float x[count];
        load(row + at, x);
        own.add(x);
        store(kept + at, x);
    });
    const RowStats stats =
        row_stats_of(own);  // with barriers, after which all of `kept` is visible
    const int target =
        a.targets[n] >= 0 && a.targets[n] < a.n_valid ? static_cast<int>(a.targets[n]) : -1;
    if (threadIdx.x == 0) {
        const float hit = target < 0 ? 0.0F : to_float(kept[target]);
        a.row_max[n] = stats.most;
        a.row_sum[n] = stats.sum;
        a.target_logit[n] = hit;
        a.losses[n] = logf(stats.sum) + (stats.most - hit);
    }
    write_gradient<T>(kept, row, a.width, static_cast<int>(a.n_valid), target, stats,
                      a.grad_scale * a.weight[n]);
}

// Returns whether the shared memory of an SM holds two blocks with one row each. With a single
// block on an SM, the loads of the next block would wait for the stores of the previous block.
template <typename T>
bool fits_twice(const cudaDeviceProp& gpu, i64 width) {
    const auto reserved = static_cast<i64>(gpu.reservedSharedMemPerBlock);
    return 2 * (row_bytes<T>(width) + reserved) <= static_cast<i64>(gpu.sharedMemPerMultiprocessor);
}

__global__ void rescale_kernel(const float* local_max, const float* row_max, float* row_sum,
                               i64 rows) {
    const i64 n = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x;
    if (n < rows) row_sum[n] *= expf(local_max[n] - row_max[n]);
}

__global__ void loss_kernel(const float* row_max, const float* row_sum, const float* target_logit,
                            float* losses, i64 rows) {
    const i64 n = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x;
    if (n < rows) losses[n] = logf(row_sum[n]) + (row_max[n] - target_logit[n]);
}

dim3 grid_of(i64 rows) {
    return dim3(static_cast<unsigned>(rows));
}

}  // namespace

namespace ops {

void cross_entropy_stats(device::Context& context, const CrossEntropyStats& a) {
    with_type(a.logits.dtype, [&]<typename T>(T) {
        launch(stream_of(context), stats_kernel<T>, grid_of(a.logits[0]), dim3(row_threads), 0,
               pointer<const T>(a.logits), a.logits[1], a.targets.as<i32>(), a.vocab_start,
               a.n_valid, a.row_max.as<float>(), a.row_sum.as<float>(), a.target_logit.as<float>());
    });
}

void cross_entropy_rescale(device::Context& context, const CrossEntropyRescale& a) {
    const i64 rows = a.row_sum[0];
    launch(stream_of(context), rescale_kernel, blocks_for(rows, flat_threads), dim3(flat_threads),
           0, a.local_max.as<float>(), a.row_max.as<float>(), a.row_sum.as<float>(), rows);
}

void cross_entropy_loss(device::Context& context, const CrossEntropyLoss& a) {
    const i64 rows = a.losses[0];
    launch(stream_of(context), loss_kernel, blocks_for(rows, flat_threads), dim3(flat_threads), 0,
           a.row_max.as<float>(), a.row_sum.as<float>(), a.target_logit.as<float>(),
           a.losses.as<float>(), rows);
}

void cross_entropy_backward(device::Context& context, const CrossEntropyBackward& a) {
    with_type(a.logits.dtype, [&]<typename T>(T) {
        launch(stream_of(context), backward_kernel<T>, grid_of(a.logits[0]), dim3(row_threads), 0,
               pointer<T>(a.logits), a.logits[1], a.targets.as<i32>(), a.vocab_start, a.n_valid,
               a.row_max.as<float>(), a.row_sum.as<float>(), a.weight.as<float>(),
               static_cast<float>(a.grad_scale));
    });
}

void cross_entropy(device::Context& context, const CrossEntropy& a) {
    with_type(a.logits.dtype, [&]<typename T>(T) {
        const i64 width = a.logits[1];
        if (!fits_twice<T>(device_of(context).properties(), width)) {
            ops::cross_entropy_stats(context, stats_of(a));
            ops::cross_entropy_loss(context, loss_of(a));
            ops::cross_entropy_backward(context, backward_of(a));
            return;
        }
        launch(stream_of(context), one_pass_kernel<T>, grid_of(a.logits[0]), dim3(row_threads),
               row_bytes<T>(width),
               OnePass<T>{pointer<T>(a.logits), width, a.n_valid, a.targets.as<i32>(),
                          a.weight.as<float>(), static_cast<float>(a.grad_scale),
                          a.row_max.as<float>(), a.row_sum.as<float>(), a.target_logit.as<float>(),
                          a.losses.as<float>()});
    });
}

}  // namespace ops
}  // namespace lm::cuda
