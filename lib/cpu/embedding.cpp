// SPDX-License-Identifier: Apache-2.0
// Embedding lookup and its gradient.
#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"
#include "cpu/vector.hpp"

namespace lm::cpu {
namespace {

using device::EmbeddingBackward;
using device::EmbeddingForward;

// The row of `token` in a table of `n_rows` rows from `start` on, or nullptr.
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

// Columns [begin, end) of all rows, in the order of the rows: what every cut of the columns adds
// to one element comes in the same order.
template <typename T, typename Add>
void backward_columns(const EmbeddingBackward& a, i64 begin, i64 end, const Add& add) {
    const i64 width = a.dtable[1];
    const i32* const tokens = a.tokens.as<i32>();
    const i32* const positions = maybe<i32>(a.positions);
    T* const dposition_table = maybe<T>(a.dposition_table);
    for (i64 n = 0; n < a.tokens[0]; ++n) {
        const T* const dout = a.dout.as<T>() + n * width;
        T* const word = row_of(a.dtable.as<T>(), i64{tokens[n]}, a.vocab_start, a.dtable[0], width);
        if (word) add(word + begin, dout + begin, end - begin);
        if (positions) {
            add(dposition_table + positions[n] * width + begin, dout + begin, end - begin);
        }
    }
}

}  // namespace

namespace reference {

void embedding_forward(device::Context& context, const EmbeddingForward& a) {
    (void)context;
    with_type(a.out.dtype, [&]<typename T>(T) { forward_rows<T>(a, 0, a.tokens[0]); });
}

void embedding_backward(device::Context& context, const EmbeddingBackward& a) {
    (void)context;
    with_type(a.dout.dtype, [&]<typename T>(T) {
        backward_columns<T>(a, 0, a.dtable[1], [](T* x, const T* y, i64 n) {
            for (i64 i = 0; i < n; ++i) x[i] += y[i];
        });
    });
}

}  // namespace reference

namespace fast {

void embedding_forward(device::Context& context, const EmbeddingForward& a) {
    if (a.out.dtype != DType::fp32) no_such_type(a.out.dtype);
    pool_of(context).run_ranges(
        a.tokens[0], 64, [&](i64 begin, i64 end, int) { forward_rows<float>(a, begin, end); });
}

void embedding_backward(device::Context& context, const EmbeddingBackward& a) {
    if (a.dout.dtype != DType::fp32) no_such_type(a.dout.dtype);
    constexpr i64 columns = 64;  // four cache lines: neighbours on other threads never share one
    pool_of(context).run_ranges(a.dtable[1], columns, [&](i64 begin, i64 end, int) {
        backward_columns<float>(a, begin, end, vector_kernels().add);
    });
}

}  // namespace fast
}  // namespace lm::cpu
