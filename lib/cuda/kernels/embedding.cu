// SPDX-License-Identifier: Apache-2.0
// Embedding lookup and its gradient. The gradient uses no atomics, so that its bits are the same in
// every run. The loader orders the rows of dout by their table row (data/sampling/row_order.hpp),
// and the kernels sum the rows of dout of each table row in the order of the batch.
#include "cost/cuda_scratch.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/ops.hpp"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/vector.cuh"

namespace lm::cuda {
namespace {

using device::EmbeddingBackward;
using device::EmbeddingForward;

constexpr int forward_threads = 128;
constexpr int forward_width = 8;

// Block n writes out[n].
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
//
// The ordered rows are cut into chunks of equal length, one block for each, so that a frequent
// token is summed by many blocks. A run is a range of ordered rows that have the same table row.
// sum_kernel adds a run that is inside one chunk to dtable. A run that crosses chunk boundaries
// leaves one partial sum in each of its chunks; join_kernel adds these in order. Every element of
// dtable is written by one thread.

constexpr int sum_threads = 128;
constexpr int chunk = static_cast<int>(cost::cuda_embedding_chunk);
constexpr int ahead = 4;  // rows of dout whose loads are in flight at once
static_assert(chunk % ahead == 0 && chunk <= sum_threads);

// Arguments of both kernels. Each chunk has at most two partial sums: of the run that began in an
// earlier chunk, and of the run that continues in the next chunk.
template <typename T>
struct Sums {
    const i32* index;  // [n]: the table row of each row of dout, plus `start`
    const i32* order;  // [n]: rows of dout; rows with equal table rows are adjacent and ascending
    i64 n;
    i64 start;
    i64 n_table_rows;
    const T* dout;       // [n, width]
    float* dtable;       // [n_table_rows, width]
    float* first_parts;  // [n_chunks, width]: sums of the run that began in an earlier chunk
    float* last_parts;   // [n_chunks, width]: sums of the run that continues in the next chunk
    i64 width;
    bool vectors;  // aligned for accesses of sum_width elements

    // Returns the table row of the i-th ordered row, or n_table_rows if the row is in the table of
    // another rank.
    __device__ i32 row(i64 i) const {
        const i64 row = index[order[i]] - start;
        return static_cast<i32>(row >= 0 && row < n_table_rows ? row : n_table_rows);
    }
};

template <int count>
__device__ void add_to(float* target, const float (&sum)[count]) {
    float x[count];
    load(target, x);
    for (int i = 0; i < count; ++i) x[i] += sum[i];
    store(target, x);
}

// Sums `count` columns of one chunk, from `column` on. `rows` and `source` point to the entries of
// the chunk; rows[-1] and rows[length] are the adjacent rows of the previous and the next chunk.
// The loads of `ahead` rows are issued before the first is used. first_parts receives a run that
// crosses both ends of the chunk.
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
            const bool continues = rows[i] == rows[i + 1];
            const i64 part = static_cast<i64>(blockIdx.x) * s.width + column;
            if (rows[i] < s.n_table_rows) {
                if (began_before) {
                    store(s.first_parts + part, sum);
                } else if (continues) {
                    store(s.last_parts + part, sum);
                } else {
                    add_to(s.dtable + rows[i] * s.width + column, sum);
                }
            }
            began_before = false;
            for (int k = 0; k < count; ++k) sum[k] = 0;
        }
    }
}

constexpr int sum_width = 4;

// Block (c, y) processes chunk c; y and the thread select the columns. The chunk's rows are read
// once into shared memory.
template <typename T>
__global__ void __launch_bounds__(sum_threads) sum_kernel(Sums<T> s) {
    __shared__ i32 rows[chunk + 2];
    __shared__ i32 source[chunk];
    const i64 begin = static_cast<i64>(blockIdx.x) * chunk;
    const int length = static_cast<int>(min(i64{chunk}, s.n - begin));
    const int i = static_cast<int>(threadIdx.x);
    if (i < length) {
        rows[i + 1] = s.row(begin + i);
        source[i] = s.order[begin + i];
    }
    if (i == 0) {
        rows[0] = begin > 0 ? s.row(begin - 1) : -1;
        rows[length + 1] = begin + length < s.n ? s.row(begin + length) : -1;
    }
    __syncthreads();
    const i64 first = static_cast<i64>(blockIdx.y) * sum_threads + threadIdx.x;
    const i64 stride = static_cast<i64>(gridDim.y) * sum_threads;
    for_turns<sum_width>(first, stride, s.width, s.vectors, [&]<int count>(i64 column) {
        sum_chunk<count>(s, rows + 1, source, length, column);
    });
}

constexpr int parts_ahead = 8;  // partial sums whose loads are in flight at once

// Returns the end of the range of chunks that begin inside the run of `row`. The first chunk of the
// range begins at ordered row `next`. Binary search is possible, because the rows of the run are
// adjacent.
template <typename T>
__device__ i64 end_of_run(const Sums<T>& s, i64 next, i32 row) {
    i64 inside = next / chunk;
    i64 outside = (s.n + chunk - 1) / chunk;
    while (outside - inside > 1) {
        const i64 middle = (inside + outside) / 2;
        (s.row(middle * chunk) == row ? inside : outside) = middle;
    }
    return outside;
}

// Block (c, y) adds the partial sums of the run that begins in chunk c and continues in the next
// chunk, in the order of the chunks. Returns if chunk c has no such run.
template <typename T>
__global__ void __launch_bounds__(sum_threads) join_kernel(Sums<T> s) {
    const i64 next = (static_cast<i64>(blockIdx.x) + 1) * chunk;
    if (next >= s.n) return;
    const i32 row = s.row(next - 1);
    const i64 begin = next - chunk;
    if (row >= s.n_table_rows || s.row(next) != row) return;
    if (begin > 0 && s.row(begin - 1) == row) return;  // the run began in an earlier chunk
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

// dtable[index[n] - start] += dout[n], for the indices whose rows are in the table. index, order:
// [N] int32; dout: [N, C] compute; dtable: [R, C] fp32.
template <typename T>
void add_rows(device::Context& context, const device::View& index, const device::View& order,
              i64 start, const device::View& dout, const device::View& dtable) {
    if (!order) device_of(context).missing("the order of the rows");
    const i64 n = index[0];
    const i64 width = dtable[1];
    const i64 n_chunks = ceil_div(n, i64{chunk});
    device::WorkspaceArena scratch = arena_of(context.workspace);
    Sums<T> s{.index = index.as<i32>(),
              .order = order.as<i32>(),
              .n = n,
              .start = start,
              .n_table_rows = dtable[0],
              .dout = pointer<const T>(dout),
              .dtable = dtable.as<float>(),
              .first_parts = scratch.reserve<float>(n_chunks * width),
              .last_parts = scratch.reserve<float>(n_chunks * width),
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
        add_rows<T>(context, a.tokens, a.token_order, a.vocab_start, a.dout, a.dtable);
        if (!a.positions) return;
        add_rows<T>(context, a.positions, a.position_order, 0, a.dout, a.dposition_table);
    });
}

}  // namespace lm::cuda
