// SPDX-License-Identifier: Apache-2.0
// Embedding lookup and its gradient.
#include <algorithm>

#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/storage.hpp"

namespace lm::cpu {
namespace {

using device::EmbeddingBackward;
using device::EmbeddingForward;

// Returns the row of `token` in a table of `n_rows` rows, which begins with the row of token
// `start`. Returns nullptr when the table does not have the row.
template <typename T>
T* row_of(T* table, i64 token, i64 start, i64 n_rows, i64 width) {
    const i64 row = token - start;
    return row >= 0 && row < n_rows ? table + row * width : nullptr;
}

template <typename T>
void forward_rows(const EmbeddingForward& a, i64 begin, i64 end) {
    const i64 width = a.table[1];
    const i32* const tokens = a.tokens.as<i32>();
    const i32* const positions = maybe<i32>(a.positions);
    const T* const position_table = maybe<T>(a.position_table);
    for (i64 n = begin; n < end; ++n) {
        const T* const word =
            row_of(a.table.as<T>(), i64{tokens[n]}, a.vocab_start, a.table[0], width);
        const T* const place = positions ? position_table + positions[n] * width : nullptr;
        T* const out = a.out.as<T>() + n * width;
        for (i64 c = 0; c < width; ++c) out[c] = (word ? word[c] : 0) + (place ? place[c] : 0);
    }
}

// Calls add(table, table row, row of dout) for every addition to a gradient table, in the order of
// the rows of dout. So the additions to an element have the same order, however the columns are
// divided.
template <typename T, typename Add>
void backward_columns(const EmbeddingBackward& a, const Add& add) {
    const i32* const tokens = a.tokens.as<i32>();
    const i32* const positions = maybe<i32>(a.positions);
    T* const dposition_table = maybe<T>(a.dposition_table);
    for (i64 n = 0; n < a.tokens[0]; ++n) {
        const i64 row = tokens[n] - a.vocab_start;
        if (row >= 0 && row < a.dtable[0]) add(a.dtable.as<T>(), row, n);
        if (positions) add(dposition_table, i64{positions[n]}, n);
    }
}

}  // namespace

namespace reference {

void embedding_forward(device::Context&, const EmbeddingForward& a) {
    with_type(a.out.dtype, [&]<typename T>(T) { forward_rows<T>(a, 0, a.tokens[0]); });
}

void embedding_backward(device::Context&, const EmbeddingBackward& a) {
    with_type(a.dout.dtype, [&]<typename T>(T) {
        const i64 width = a.dtable[1];
        backward_columns<T>(a, [&](T* rows, i64 row, i64 n) {
            const T* const dout = a.dout.as<T>() + n * width;
            for (i64 i = 0; i < width; ++i) rows[row * width + i] += dout[i];
        });
    });
}

}  // namespace reference

namespace fast {

void embedding_forward(device::Context& context, const EmbeddingForward& a) {
    if (!is_fast_type(a.out.dtype)) no_such_type(a.out.dtype);
    if (a.out.dtype == DType::fp32) {
        return pool_of(context).run_ranges(
            a.tokens[0], 64, [&](i64 begin, i64 end, int) { forward_rows<float>(a, begin, end); });
    }
    const i64 width = a.table[1];
    const Source table(a.table);
    const Source positions(a.position_table);
    const Target out(a.out);
    pool_of(context).run_ranges(a.tokens[0], 64, [&](i64 begin, i64 end, int) {
        float sum[row_piece];
        float place[row_piece];
        for (i64 row = begin; row < end; ++row) {
            const i64 token = a.tokens.as<i32>()[row] - a.vocab_start;
            const bool held = token >= 0 && token < a.table[0];
            for_pieces(width, [&](i64 column, i64 n) {
                std::fill(sum, sum + n, 0.0F);
                if (held) table.row(token * width + column, n, sum);
                if (positions) {
                    const i64 at = a.positions.as<i32>()[row] * width + column;
                    vector_kernels().add(sum, positions.row(at, n, place), n);
                }
                out.store(row * width + column, sum, n);
            });
        }
    });
}

void embedding_backward(device::Context& context, const EmbeddingBackward& a) {
    if (!is_fast_type(a.dout.dtype)) no_such_type(a.dout.dtype);
    constexpr i64 columns =
        64;  // columns of a task: four whole cache lines, so that threads share none
    const i64 width = a.dtable[1];
    const Source dout(a.dout);
    pool_of(context).run_ranges(width, columns, [&](i64 begin, i64 end, int) {
        float scratch[columns];
        backward_columns<float>(a, [&](float* rows, i64 row, i64 n) {
            const float* const piece = dout.row(n * width + begin, end - begin, scratch);
            vector_kernels().add(rows + row * width + begin, piece, end - begin);
        });
    });
}

}  // namespace fast
}  // namespace lm::cpu
