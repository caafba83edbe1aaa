// SPDX-License-Identifier: Apache-2.0
// FlashAttention-2 with products of bf16 pairs and fp32 sums (cpu/vector/pair_kernels.hpp). The
// code rounds in the same places as lib/cuda/attention. Queries, keys and values are multiplied as
// stored. The softmax scales the fp32 scores. Probabilities and gradients of scores are rounded to
// bf16 before the products that read them. The sum of the softmax adds the unrounded probabilities.
//
// The unit of work is a strip: 16 queries and a block of 64 keys, whose scores stay in the L1
// cache. Where the causal mask hides the end of a block of keys from a strip, the products have
// only the visible part, in multiples of 16 keys. All operands are packed into pairs along the
// dimension over which their product sums, and padded with zeros to multiples of 16 columns.
//
// Tasks are as in attention.cpp, but a task of forward has up to cost::attention_task_queries
// queries, which share the packed keys and values. Blocks and order depend on the shape only.
#include "cpu/attention_bf16.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention_head.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/vector/pair_kernels.hpp"

namespace lm::cpu {
namespace {

using device::AttentionBackward;
using device::AttentionForward;

constexpr i64 block = pair_block;
constexpr i64 strip = pair_strip;
static_assert(block == cost::attention_block && strip == cost::attention_strip);

// The sizes of a head's rows: in pairs, and in columns padded to whole vectors.
struct Widths {
    explicit Widths(i64 width) : pairs((width + 1) / 2), columns(round_up(width, 16)) {}
    i64 pairs;
    i64 columns;
};

u32* pairs_of(float* piece) {
    return reinterpret_cast<u32*>(piece);
}

// view: [...] bf16
u16* elements(const device::View& view, i64 offset) {
    return static_cast<u16*>(view.data) + offset;
}

// Returns the strip of `rows` queries from `query` on. Its keys are the first keys of the block, up
// to the last key that the causal mask allows for one of these queries. The number of keys is
// rounded up to whole vectors. Computes the dropout factors.
template <typename Args>
ScoreStrip strip_of(const HeadRows<Args>& head, i64 query, i64 rows, i64 key, i64 n_keys,
                    float* scores, float* factors) {
    ScoreStrip s{};
    s.rows = rows;
    s.n = std::min(round_up(n_keys, 16), round_up(query + rows - key, 16));
    s.scores = scores;
    for (i64 i = 0; i < rows; ++i) {
        const SeenKeys seen(head, query + i, key, n_keys);
        s.begin[i] = static_cast<i32>(seen.begin);
        s.end[i] = static_cast<i32>(seen.end);
    }
    s.scale = static_cast<float>(head.a.scale);
    s.slope = head.slope;
    s.distance = static_cast<float>(key - query);
    if (!head.a.dropout.on()) return s;
    for (i64 i = 0; i < rows; ++i) {
        head.dropout_factors(query + i, key, s.n, factors + i * block);
    }
    s.factors = factors;
    return s;
}

// ---- forward -----------------------------------------------------------------------------------

struct ForwardScratch {
    ForwardScratch(float* base, i64 length, i64 width)
        : ForwardScratch(ScratchPieces(base, cost::attention_forward_bf16_floats(length, width)),
                         std::min(length, cost::attention_task_queries), Widths(width)) {}
    ForwardScratch(ScratchPieces pieces, i64 queries, const Widths& w)
        : q(pairs_of(pieces.reserve(round_up(queries * w.pairs, 16)))),
          k_transposed(pairs_of(pieces.reserve(block * w.pairs))),
          v(pairs_of(pieces.reserve(block / 2 * w.columns))),
          out(pieces.reserve(queries * w.columns)),
          scores(pieces.reserve(strip * block)),
          factors(pieces.reserve(strip * block)),
          weights(pairs_of(pieces.reserve(strip * block / 2))),
          max(pieces.reserve(round_up(queries, 16))),
          sum(pieces.reserve(round_up(queries, 16))),
          rescale(pieces.reserve(strip)) {}
    u32* q;             // [queries, pairs]
    u32* k_transposed;  // [pairs, block]
    u32* v;             // [block / 2, columns]
    float* out;         // [queries, columns]: unnormalized output
    float* scores;      // [strip, block]
    float* factors;     // [strip, block]: dropout factors
    u32* weights;       // [strip, block / 2]: probabilities relative to the maximum
    float* max;         // [queries]: largest score of each query so far
    float* sum;         // [queries]: sum of exp(score - max) so far
    float* rescale;     // [strip]: factors of out
};

// Adds the contribution of one block of keys to the output rows of one strip. `row`: the strip's
// first query in the task. `first`: this is the first block of keys for these queries.
void forward_strip(const HeadRows<AttentionForward>& head, i64 query, i64 rows, i64 row, i64 key,
                   i64 n_keys, bool first, const ForwardScratch& s) {
    const PairKernels& kernels = *pair_kernels();
    const Widths w(head.width);
    const ScoreStrip scores = strip_of(head, query, rows, key, n_keys, s.scores, s.factors);
    kernels.product({rows, scores.n, w.pairs, s.q + row * w.pairs, w.pairs, 1, s.k_transposed,
                     block, s.scores, block, false});
    kernels.softmax(scores, s.weights, s.max + row, s.sum + row, s.rescale);
    float* const out = s.out + row * w.columns;
    for (i64 i = 0; i < rows && !first; ++i) {
        if (s.rescale[i] == 1.0F) continue;
        vector_kernels().scale(out + i * w.columns, s.rescale[i], w.columns);
    }
    const i64 n_pairs = (std::min(scores.n, n_keys) + 1) / 2;
    kernels.product({rows, w.columns, n_pairs, s.weights, block / 2, 1, s.v, w.columns, out,
                     w.columns, !first});
}

// Computes out and lse of the queries of one task.
void forward_task(const HeadRows<AttentionForward>& head, i64 first_query,
                  const ForwardScratch& s) {
    const PairKernels& kernels = *pair_kernels();
    const Widths w(head.width);
    const device::View& qkv = head.a.qkv;
    const i64 end = std::min(first_query + cost::attention_task_queries, head.length);
    const i64 n = end - first_query;
    kernels.copy_rows(n, head.width, elements(qkv, head.q_offset + first_query * head.stride),
                      head.stride, s.q);
    std::fill(s.max, s.max + round_up(n, 16), -std::numeric_limits<float>::infinity());
    std::fill(s.sum, s.sum + round_up(n, 16), 0.0F);
    for (i64 key = head.first_key(first_query, end) / block * block; key < end; key += block) {
        const i64 n_keys = std::min(block, head.length - key);
        const i64 first_row = key * head.stride;
        kernels.pack_transposed(n_keys, head.width, elements(qkv, head.k_offset + first_row),
                                head.stride, s.k_transposed);
        kernels.pack_rows(n_keys, head.width, elements(qkv, head.v_offset + first_row), head.stride,
                          s.v);
        for (i64 query = std::max(key, first_query); query < end; query += strip) {
            const i64 rows = std::min(strip, end - query);
            const i64 first_key = head.first_key(query, query + rows) / block * block;
            if (first_key > key) continue;
            forward_strip(head, query, rows, query - first_query, key, n_keys, first_key == key, s);
        }
    }
    float* const lse = head.a.lse.as<float>() + head.lse_offset(first_query);
    for (i64 i = 0; i < n; ++i) {
        lse[i] = static_cast<float>(s.max[i] + std::log(static_cast<double>(s.sum[i])));
        s.sum[i] = 1.0F / s.sum[i];
    }
    kernels.store_rows(n, head.width, s.out, w.columns, s.sum, 1,
                       elements(head.a.out, head.out_offset(first_query)),
                       head.a.n_heads * head.width);
}

// ---- backward ----------------------------------------------------------------------------------

struct BackwardScratch {
    BackwardScratch(float* base, i64 length, i64 width)
        : BackwardScratch(ScratchPieces(base, cost::attention_backward_bf16_floats(length, width)),
                          length, Widths(width)) {}
    BackwardScratch(ScratchPieces pieces, i64 length, const Widths& w)
        : q(pairs_of(pieces.reserve(round_up(length * w.pairs, 16)))),
          dout(pairs_of(pieces.reserve(round_up(length * w.pairs, 16)))),
          q_columns(pairs_of(pieces.reserve((length + 1) / 2 * w.columns))),
          dout_columns(pairs_of(pieces.reserve((length + 1) / 2 * w.columns))),
          dq(pieces.reserve(length * w.columns)),
          dk(pieces.reserve(length * w.columns)),
          dv(pieces.reserve(length * w.columns)),
          delta(pieces.reserve(round_up(length, 16))),
          k_transposed(pairs_of(pieces.reserve(block * w.pairs))),
          v_transposed(pairs_of(pieces.reserve(block * w.pairs))),
          k(pairs_of(pieces.reserve(block / 2 * w.columns))),
          scores(pieces.reserve(strip * block)),
          dp(pieces.reserve(strip * block)),
          factors(pieces.reserve(strip * block)),
          p(pairs_of(pieces.reserve(block / 2 * block))),
          ds(pairs_of(pieces.reserve(block / 2 * block))),
          ds_rows(pairs_of(pieces.reserve(strip * block / 2))) {}
    u32* q;             // [T, pairs]
    u32* dout;          // [T, pairs]
    u32* q_columns;     // [ceil(T / 2), columns]: pairs of rows
    u32* dout_columns;  // [ceil(T / 2), columns]: pairs of rows
    float* dq;          // [T, columns], to be multiplied by the scale
    float* dk;          // [T, columns]: sum over the heads, to be multiplied by the scale
    float* dv;          // [T, columns]: sum over the heads of the group
    float* delta;       // [T]: rowsum(dout * out)
    u32* k_transposed;  // [pairs, block]
    u32* v_transposed;  // [pairs, block]
    u32* k;             // [block / 2, columns]: pairs of rows
    float* scores;      // [strip, block]
    float* dp;          // [strip, block]: gradient of p
    float* factors;     // [strip, block]: dropout factors
    u32* p;             // [block / 2, block]: probabilities after dropout, pairs of queries
    u32* ds;            // [block / 2, block]: gradient of the scores, pairs of queries
    u32* ds_rows;       // [strip, block / 2]: gradient of the scores, pairs of keys
};

using BackwardHead = HeadRows<AttentionBackward>;

// Loads q and dout of a head, computes delta, and clears dq.
void load_head(const BackwardHead& head, const BackwardScratch& s) {
    const PairKernels& kernels = *pair_kernels();
    const i64 columns = Widths(head.width).columns;
    const i64 dout_stride = head.a.n_heads * head.width;
    const u16* const q = elements(head.a.qkv, head.q_offset);
    const u16* const dout = elements(head.a.dout, head.out_offset(0));
    kernels.copy_rows(head.length, head.width, q, head.stride, s.q);
    kernels.pack_rows(head.length, head.width, q, head.stride, s.q_columns);
    kernels.copy_rows(head.length, head.width, dout, dout_stride, s.dout);
    kernels.pack_rows(head.length, head.width, dout, dout_stride, s.dout_columns);
    kernels.row_dots(head.length, head.width, dout, elements(head.a.out, head.out_offset(0)),
                     dout_stride, s.delta);
    std::fill(s.dq, s.dq + head.length * columns, 0.0F);
}

// Computes p and ds of one strip, and adds its part of dq. `row`: the strip's first query in its
// block.
void backward_strip(const BackwardHead& head, i64 query, i64 rows, i64 row, i64 key, i64 n_keys,
                    const BackwardScratch& s) {
    const PairKernels& kernels = *pair_kernels();
    const Widths w(head.width);
    const ScoreStrip scores = strip_of(head, query, rows, key, n_keys, s.scores, s.factors);
    kernels.product({rows, scores.n, w.pairs, s.q + query * w.pairs, w.pairs, 1, s.k_transposed,
                     block, s.scores, block, false});
    kernels.product({rows, scores.n, w.pairs, s.dout + query * w.pairs, w.pairs, 1, s.v_transposed,
                     block, s.dp, block, false});
    const i64 at = row / 2 * block;
    kernels.softmax_backward(scores, s.dp, head.a.lse.as<float>() + head.lse_offset(query),
                             s.delta + query, s.p + at, s.ds + at, s.ds_rows);
    const i64 n_pairs = (std::min(scores.n, n_keys) + 1) / 2;
    kernels.product({rows, w.columns, n_pairs, s.ds_rows, block / 2, 1, s.k, w.columns,
                     s.dq + query * w.columns, w.columns, true});
}

// Adds the gradients of one block of keys over all queries that see it. `accumulate`: dk and dv
// already contain the sums over previous heads of the group.
void backward_keys(const BackwardHead& head, i64 key, bool accumulate, const BackwardScratch& s) {
    const PairKernels& kernels = *pair_kernels();
    const Widths w(head.width);
    const i64 n_keys = std::min(block, head.length - key);
    const u16* const k = elements(head.a.qkv, head.k_offset + key * head.stride);
    const u16* const v = elements(head.a.qkv, head.v_offset + key * head.stride);
    kernels.pack_transposed(n_keys, head.width, v, head.stride, s.v_transposed);
    kernels.pack_transposed(n_keys, head.width, k, head.stride, s.k_transposed);
    kernels.pack_rows(n_keys, head.width, k, head.stride, s.k);
    for (i64 query = key; query < head.length; query += block) {
        const i64 n_queries = std::min(block, head.length - query);
        if (head.first_key(query, query + n_queries) >= key + n_keys) continue;
        for (i64 row = 0; row < n_queries; row += strip) {
            backward_strip(head, query + row, std::min(strip, n_queries - row), row, key, n_keys,
                           s);
        }
        // In the block on the diagonal, a query sees no later key, so the products of each strip of
        // keys skip the earlier queries.
        const i64 step = query == key ? strip : block;
        for (i64 first = 0; first < n_keys; first += step) {
            const i64 rows = std::min(step, n_keys - first);
            const i64 skipped = first / 2;  // pairs of queries
            const i64 n_pairs = (n_queries + 1) / 2 - skipped;
            const i64 from = skipped * block + first;
            const i64 column = (query / 2 + skipped) * w.columns;
            const i64 to = (key + first) * w.columns;
            kernels.product({rows, w.columns, n_pairs, s.p + from, 1, block,
                             s.dout_columns + column, w.columns, s.dv + to, w.columns, accumulate});
            kernels.product({rows, w.columns, n_pairs, s.ds + from, 1, block, s.q_columns + column,
                             w.columns, s.dk + to, w.columns, accumulate});
        }
        accumulate = true;
    }
}

void store_rows(const BackwardHead& head, i64 offset, float factor, const float* rows) {
    pair_kernels()->store_rows(head.length, head.width, rows, Widths(head.width).columns, &factor,
                               0, elements(head.a.dqkv, offset), head.stride);
}

// Computes the gradients of one head. Stores dk and dv only for the last head of the group, when
// they are complete.
void backward_head(const BackwardHead& head, const BackwardScratch& s) {
    const i64 in_group = head.a.n_heads / head.a.n_groups;
    const i64 number = head.head % in_group;
    const auto scale = static_cast<float>(head.a.scale);
    load_head(head, s);
    for (i64 key = 0; key < head.length; key += block) backward_keys(head, key, number > 0, s);
    store_rows(head, head.q_offset, scale, s.dq);
    if (number + 1 < in_group) return;
    store_rows(head, head.k_offset, scale, s.dk);
    store_rows(head, head.v_offset, 1.0F, s.dv);
}

}  // namespace

bool uses_bf16_products(DType type) {
    return type == DType::bf16 && pair_kernels();
}

void attention_forward_bf16(device::Context& context, const AttentionForward& a) {
    ThreadPool& pool = pool_of(context);
    const i64 length = a.qkv[1];
    const i64 floats = cost::attention_forward_bf16_floats(length, a.head_dim);
    float* const base = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    const i64 n_parts = ceil_div(length, cost::attention_task_queries);
    const i64 n_heads = a.qkv[0] * a.n_heads;
    pool.run(n_parts * n_heads, [&](i64 task, int worker) {
        // The tasks with the most keys come first.
        const i64 query = (n_parts - 1 - task / n_heads) * cost::attention_task_queries;
        const i64 index = task % n_heads;
        const HeadRows<AttentionForward> head(a, index / a.n_heads, index % a.n_heads);
        forward_task(head, query, ForwardScratch(base + worker * floats, length, a.head_dim));
    });
}

void attention_backward_bf16(device::Context& context, const AttentionBackward& a) {
    ThreadPool& pool = pool_of(context);
    const i64 length = a.qkv[1];
    const i64 floats = cost::attention_backward_bf16_floats(length, a.head_dim);
    float* const base = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    const i64 in_group = a.n_heads / a.n_groups;
    pool.run(a.qkv[0] * a.n_groups, [&](i64 task, int worker) {
        const BackwardScratch scratch(base + worker * floats, length, a.head_dim);
        const i64 first = task % a.n_groups * in_group;
        for (i64 h = first; h < first + in_group; ++h) {
            backward_head(BackwardHead(a, task / a.n_groups, h), scratch);
        }
    });
}

}  // namespace lm::cpu
