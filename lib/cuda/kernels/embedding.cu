// SPDX-License-Identifier: Apache-2.0
// Embedding lookup and its gradient. The gradient has no atomics: rows of dout are sorted by the
// table row that they go to, stably, so that every sum is made in the order of the rows.
#include <bit>

#include "cost/cuda_scratch.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/kernels/sort.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/ops.hpp"

namespace lm::cuda {
namespace {

using device::EmbeddingBackward;
using device::EmbeddingForward;

constexpr int forward_threads = 128;
constexpr int forward_width = 8;

template <typename T>
__global__ void forward_kernel(const i32* tokens, const T* table, i64 table_rows, i64 vocab_start,
                               const i32* positions, const T* position_table, T* out, i64 width,
                               bool vectors) {
    const i64 n = blockIdx.x;
    const i64 token = tokens[n] - vocab_start;
    const T* const word = token >= 0 && token < table_rows ? table + token * width : nullptr;
    const T* const place = positions != nullptr ? position_table + positions[n] * width : nullptr;
    for_turns<forward_width>(threadIdx.x, forward_threads, width, vectors, [&]<int count>(i64 at) {
        float sum[count] = {};
        float x[count];
        if (word != nullptr) load(word + at, sum);
        if (place != nullptr) {
            load(place + at, x);
            for (int i = 0; i < count; ++i) sum[i] += x[i];
        }
        store(out + n * width + at, sum);
    });
}

// ---- Backward ----------------------------------------------------------------------------------

constexpr int sum_threads = 128;
constexpr int chunk = static_cast<int>(cost::cuda_embedding_chunk);
constexpr int ahead = 4;  // rows of dout on their way at once
static_assert(chunk % ahead == 0 && chunk <= sum_threads);

// Where the sums of a chunk of the sorted rows go. The run of equal rows at a chunk's beginning may
// have begun before it, and that at its end go on after it: their sums are parts, of which each
// chunk has two at most.
template <typename T>
struct Sums {
    const i32* rows;    // sorted
    const i32* source;  // the row of dout
    i64 n;
    i64 n_table_rows;
    const T* dout;
    float* dtable;
    float* first_parts;  // [chunk, width]: of the run that began before, or else ...
    float* last_parts;   // [chunk, width]: of the run that goes on
    i64 width;
    bool vectors;
};

template <int count>
__device__ void add_to(float* target, const float (&sum)[count]) {
    float x[count];
    load(target, x);
    for (int i = 0; i < count; ++i) x[i] += sum[i];
    store(target, x);
}

// The sums of one chunk in `count` columns from `column` on. `rows` and `source` are the chunk's,
// with the neighbours' rows at rows[-1] and rows[length].
template <int count, typename T>
__device__ void sum_chunk(const Sums<T>& s, const i32* rows, const i32* source, int length,
                          i64 column) {
    float sum[count] = {};
    bool began_before = rows[0] == rows[-1];
    for (int base = 0; base < length; base += ahead) {
        float x[ahead][count] = {};
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            if (base + j < length) load(s.dout + source[base + j] * s.width + column, x[j]);
        }
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            const int i = base + j;
            if (i >= length) break;
            for (int k = 0; k < count; ++k) sum[k] += x[j][k];
            if (rows[i] == rows[i + 1] && i + 1 < length) continue;
            const bool goes_on = rows[i] == rows[i + 1];
            const i64 part = static_cast<i64>(blockIdx.x) * s.width + column;
            if (rows[i] >= s.n_table_rows) {
            } else if (began_before) {
                store(s.first_parts + part, sum);
            } else if (goes_on) {
                store(s.last_parts + part, sum);
            } else {
                add_to(s.dtable + rows[i] * s.width + column, sum);
            }
            began_before = false;
            for (int k = 0; k < count; ++k) sum[k] = 0;
        }
    }
}

constexpr int sum_width = 4;

template <typename T>
__global__ void __launch_bounds__(sum_threads) sum_kernel(Sums<T> s) {
    __shared__ i32 rows[chunk + 2];
    __shared__ i32 source[chunk];
    const i64 begin = static_cast<i64>(blockIdx.x) * chunk;
    const int length = static_cast<int>(min(i64{chunk}, s.n - begin));
    const int i = static_cast<int>(threadIdx.x);
    if (i < length) {
        rows[i + 1] = s.rows[begin + i];
        source[i] = s.source[begin + i];
    }
    if (i == 0) {
        rows[0] = begin > 0 ? s.rows[begin - 1] : -1;
        rows[length + 1] = begin + length < s.n ? s.rows[begin + length] : -1;
    }
    __syncthreads();
    const i64 first = static_cast<i64>(blockIdx.y) * sum_threads + threadIdx.x;
    const i64 stride = static_cast<i64>(gridDim.y) * sum_threads;
    for_turns<sum_width>(first, stride, s.width, s.vectors, [&]<int count>(i64 column) {
        sum_chunk<count>(s, rows + 1, source, length, column);
    });
}

constexpr int parts_ahead = 8;  // on their way at once

// Behind the last chunk at whose beginning, from `next` on, the run of `row` is: the rows are
// sorted.
template <typename T>
__device__ i64 end_of_run(const Sums<T>& s, i64 next, i32 row) {
    i64 inside = next / chunk;
    i64 behind = (s.n + chunk - 1) / chunk;
    while (behind - inside > 1) {
        const i64 middle = (inside + behind) / 2;
        (s.rows[middle * chunk] == row ? inside : behind) = middle;
    }
    return behind;
}

// The parts of a run that began in chunk blockIdx.x and goes on: added in order.
template <typename T>
__global__ void __launch_bounds__(sum_threads) join_kernel(Sums<T> s) {
    const i64 next = (static_cast<i64>(blockIdx.x) + 1) * chunk;
    if (next >= s.n) return;
    const i32 row = s.rows[next - 1];
    const i64 begin = next - chunk;
    if (row >= s.n_table_rows || s.rows[next] != row) return;
    if (begin > 0 && s.rows[begin - 1] == row) return;  // it began earlier
    const i64 end = end_of_run(s, next, row);
    const i64 first = static_cast<i64>(blockIdx.y) * sum_threads + threadIdx.x;
    const i64 stride = static_cast<i64>(gridDim.y) * sum_threads;
    for_turns<sum_width>(first, stride, s.width, s.vectors, [&]<int count>(i64 column) {
        float sum[count];
        load(s.last_parts + blockIdx.x * s.width + column, sum);
        for (i64 base = blockIdx.x + 1; base < end; base += parts_ahead) {
            float x[parts_ahead][count] = {};
#pragma unroll
            for (int j = 0; j < parts_ahead; ++j) {
                if (base + j < end) load(s.first_parts + (base + j) * s.width + column, x[j]);
            }
#pragma unroll
            for (int j = 0; j < parts_ahead; ++j) {
                for (int i = 0; i < count; ++i) sum[i] += x[j][i];
            }
        }
        add_to(s.dtable + row * s.width + column, sum);
    });
}

// dtable[index[n] - start] += dout[n], of the indices whose rows the table has.
template <typename T>
void add_rows(device::Context& context, const device::View& index, i64 start,
              const device::View& dout, const device::View& dtable) {
    const i64 n = index[0];
    const i64 width = dtable[1];
    const i64 n_chunks = ceil_div(n, i64{chunk});
    Scratch scratch(context.workspace);
    const Sorted sorted =
        sort_rows(stream_of(context), scratch, index.as<i32>(), n, start, dtable[0]);
    Sums<T> s{.rows = sorted.rows,
              .source = sorted.source,
              .n = n,
              .n_table_rows = dtable[0],
              .dout = pointer<const T>(dout),
              .dtable = dtable.as<float>(),
              .first_parts = scratch.take<float>(n_chunks * width),
              .last_parts = scratch.take<float>(n_chunks * width),
              .width = width};
    s.vectors =
        width % sum_width == 0 && aligned(s.dout, sum_width) && aligned(s.dtable, sum_width);
    const dim3 grid(static_cast<unsigned>(n_chunks),
                    static_cast<unsigned>(ceil_div(width, i64{sum_threads} * sum_width)));
    launch(stream_of(context), sum_kernel<T>, grid, dim3(sum_threads), 0, s);
    launch(stream_of(context), join_kernel<T>, grid, dim3(sum_threads), 0, s);
}

}  // namespace

void ops::embedding_forward(device::Context& context, const EmbeddingForward& a) {
    const i64 width = a.table[1];
    with_type(a.out.dtype, [&]<typename T>(T) {
        const T* const table = pointer<const T>(a.table);
        const T* const position_table = pointer<const T>(a.position_table);
        T* const out = pointer<T>(a.out);
        const bool vectors = width % forward_width == 0 && aligned(table, forward_width) &&
                             aligned(position_table, forward_width) && aligned(out, forward_width);
        launch(stream_of(context), forward_kernel<T>, dim3(static_cast<unsigned>(a.tokens[0])),
               dim3(forward_threads), 0, a.tokens.as<i32>(), table, a.table[0], a.vocab_start,
               pointer<const i32>(a.positions), position_table, out, width, vectors);
    });
}

void ops::embedding_backward(device::Context& context, const EmbeddingBackward& a) {
    with_type(a.dout.dtype, [&]<typename T>(T) {
        add_rows<T>(context, a.tokens, a.vocab_start, a.dout, a.dtable);
        if (a.positions) add_rows<T>(context, a.positions, 0, a.dout, a.dposition_table);
    });
}

}  // namespace lm::cuda
