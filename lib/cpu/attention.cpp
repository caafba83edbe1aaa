// SPDX-License-Identifier: Apache-2.0
// Attention in blocks of queries and keys that stay in the L2 cache, without a T x T matrix in
// memory: FlashAttention-2 (Dao, 2023, algorithms 1 and 2).
//
// Forward has one task for each (sample, head, block of queries). A task loops over the visible
// keys with an online softmax. Backward has one task for each (sample, key-value group). A task
// loops over the heads of the group, over blocks of keys, and for each block over the blocks of
// queries that see it. One worker sums all gradients of a group in its scratch memory, so that no
// two tasks write the same element. Blocks and order depend on the shape only, so the bits are the
// same for any thread count.
//
// The scratch memory has the keys and values of a block as contiguous fp32. Keys, and in backward
// also values, are transposed, because small_product() needs a row-major b.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention_bf16.hpp"
#include "cpu/attention_head.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/ops.hpp"

namespace lm::cpu {
namespace {

using device::AttentionBackward;
using device::AttentionForward;

constexpr i64 block = cost::attention_block;

// Writes factor * rows of x to y, [rows, width] contiguous fp32.
void copy_rows(const Source& x, i64 offset, i64 stride, i64 rows, i64 width, float factor,
               float* y) {
    for (i64 i = 0; i < rows; ++i) x.copy(offset + i * stride, factor, y + i * width, width);
}

// Returns the distance key - query for the first key of a block, as ALiBi needs it.
float distance(i64 query, i64 first) {
    return static_cast<float>(first - query);
}

// ---- forward -----------------------------------------------------------------------------------

struct ForwardScratch {
    ForwardScratch(float* base, i64 width)
        : ForwardScratch(ScratchPieces(base, cost::attention_forward_floats(width)), width) {}
    ForwardScratch(ScratchPieces pieces, i64 width)
        : q(pieces.reserve(block * width)),
          k_transposed(pieces.reserve(block * width)),
          v(pieces.reserve(block * width)),
          out(pieces.reserve(block * width)),
          scores(pieces.reserve(block * block)),
          max(pieces.reserve(block)),
          sum(pieces.reserve(block)),
          factors(pieces.reserve(block)) {}
    float* q;             // [block, width], multiplied by the scale
    float* k_transposed;  // [width, block]
    float* v;             // [block, width]
    float* out;           // [block, width]: unnormalized output
    float* scores;        // [block, block]: scores, then probabilities relative to the maximum
    float* max;           // [block]: largest score of each query so far
    float* sum;           // [block]: sum of exp(score - max) so far
    float* factors;       // [block]: dropout factors of one query
};

// Loads the keys (transposed) and the values of a block. First uses `v` as scratch memory for the
// keys.
template <typename Args>
void load_keys(const HeadRows<Args>& head, i64 key, i64 n_keys, float* k_transposed, float* v) {
    const Source qkv(head.a.qkv);
    const i64 first = key * head.stride;
    const i64 width = head.width;
    copy_rows(qkv, head.k_offset + first, head.stride, n_keys, width, 1.0F, v);
    vector_kernels().transpose(n_keys, width, v, width, 1.0F, k_transposed, block);
    copy_rows(qkv, head.v_offset + first, head.stride, n_keys, width, 1.0F, v);
}

// Computes out and lse of one block of queries. The sum of the softmax is computed before dropout,
// because dropout applies to normalized probabilities.
void forward_block(const HeadRows<AttentionForward>& head, i64 first_query,
                   const ForwardScratch& s) {
    const VectorKernels& kernels = vector_kernels();
    const i64 width = head.width;
    const i64 n_queries = std::min(block, head.length - first_query);
    copy_rows(head.a.qkv, head.q_offset + first_query * head.stride, head.stride, n_queries, width,
              static_cast<float>(head.a.scale), s.q);
    std::fill(s.max, s.max + block, -std::numeric_limits<float>::infinity());
    std::fill(s.sum, s.sum + block, 0.0F);
    const i64 first_block = head.first_key(first_query, first_query + n_queries) / block * block;
    for (i64 key = first_block; key < first_query + n_queries; key += block) {
        const i64 n_keys = std::min(block, head.length - key);
        load_keys(head, key, n_keys, s.k_transposed, s.v);
        kernels.small_product(n_queries, n_keys, width, s.q, width, 1, s.k_transposed, block,
                              s.scores, block, false);
        for (i64 i = 0; i < n_queries; ++i) {
            float* const row = s.scores + i * block;
            const SeenKeys seen(head, first_query + i, key, n_keys);
            const float rescale =
                kernels.online_softmax(row, n_keys, seen.begin, seen.end, head.slope,
                                       distance(first_query + i, key), s.max + i, s.sum + i);
            if (key > first_block) kernels.scale(s.out + i * width, rescale, width);
            if (!head.a.dropout.on()) continue;
            head.dropout_factors(first_query + i, key, n_keys, s.factors);
            kernels.multiply(row, s.factors, n_keys);
        }
        kernels.small_product(n_queries, width, n_keys, s.scores, block, 1, s.v, width, s.out,
                              width, key > first_block);
    }
    const Target out(head.a.out);
    for (i64 i = 0; i < n_queries; ++i) {
        const i64 t = first_query + i;
        out.put(head.out_offset(t), 1.0F / s.sum[i], s.out + i * width, width);
        head.a.lse.as<float>()[head.lse_offset(t)] =
            static_cast<float>(s.max[i] + std::log(static_cast<double>(s.sum[i])));
    }
}

// ---- backward ----------------------------------------------------------------------------------

struct BackwardScratch {
    BackwardScratch(float* base, i64 length, i64 width)
        : BackwardScratch(ScratchPieces(base, cost::attention_backward_floats(length, width)),
                          length, width) {}
    BackwardScratch(ScratchPieces pieces, i64 length, i64 width)
        : q(pieces.reserve(length * width)),
          dout(pieces.reserve(length * width)),
          dq(pieces.reserve(length * width)),
          dk(pieces.reserve(length * width)),
          dv(pieces.reserve(length * width)),
          delta(pieces.reserve(length)),
          k(pieces.reserve(block * width)),
          k_transposed(pieces.reserve(block * width)),
          v_transposed(pieces.reserve(block * width)),
          p(pieces.reserve(block * block)),
          dp(pieces.reserve(block * block)),
          factors(pieces.reserve(block)) {}
    float* q;             // [T, width], multiplied by the scale
    float* dout;          // [T, width]
    float* dq;            // [T, width]
    float* dk;            // [T, width]: sum over the heads of the group
    float* dv;            // [T, width]: sum over the heads of the group
    float* delta;         // [T]: rowsum(dout * out)
    float* k;             // [block, width]
    float* k_transposed;  // [width, block]
    float* v_transposed;  // [width, block]
    float* p;             // [block, block]: probabilities, then probabilities after dropout
    float* dp;            // [block, block]: gradient of p, then of the scores
    float* factors;       // [block]: dropout factors of one query
};

using BackwardHead = HeadRows<AttentionBackward>;

// Loads q and dout of a head, computes delta, and clears dq.
void load_head(const BackwardHead& head, const BackwardScratch& s) {
    const i64 width = head.width;
    copy_rows(head.a.qkv, head.q_offset, head.stride, head.length, width,
              static_cast<float>(head.a.scale), s.q);
    copy_rows(head.a.dout, head.out_offset(0), head.a.n_heads * width, head.length, width, 1.0F,
              s.dout);
    const Source out(head.a.out);
    for (i64 t = 0; t < head.length; ++t) {
        const float* const row = out.row(head.out_offset(t), width, s.dq);
        s.delta[t] = static_cast<float>(vector_kernels().dot(s.dout + t * width, row, width));
    }
    std::fill(s.dq, s.dq + head.length * width, 0.0F);
}

// Computes the probabilities and the gradient of the scores for one block of queries and keys.
void block_gradient(const BackwardHead& head, i64 query, i64 n_queries, i64 key, i64 n_keys,
                    const BackwardScratch& s) {
    const VectorKernels& kernels = vector_kernels();
    const i64 width = head.width;
    kernels.small_product(n_queries, n_keys, width, s.q + query * width, width, 1, s.k_transposed,
                          block, s.p, block, false);
    kernels.small_product(n_queries, n_keys, width, s.dout + query * width, width, 1,
                          s.v_transposed, block, s.dp, block, false);
    const float* const lse = head.a.lse.as<float>() + head.lse_offset(query);
    for (i64 i = 0; i < n_queries; ++i) {
        const SeenKeys seen(head, query + i, key, n_keys);
        float* const p = s.p + i * block;
        kernels.recompute_softmax(p, n_keys, seen.begin, seen.end, head.slope,
                                  distance(query + i, key), lse[i]);
        const bool dropout = head.a.dropout.on();
        if (dropout) head.dropout_factors(query + i, key, n_keys, s.factors);
        kernels.softmax_backward(p, s.dp + i * block, dropout ? s.factors : nullptr,
                                 s.delta[query + i], n_keys);
    }
}

// Adds the gradients of one block of keys over all queries that see it. `accumulate`: dk and dv
// already contain the sums over previous heads of the group.
void backward_keys(const BackwardHead& head, i64 key, bool accumulate, const BackwardScratch& s) {
    const VectorKernels& kernels = vector_kernels();
    const Source qkv(head.a.qkv);
    const i64 width = head.width;
    const i64 n_keys = std::min(block, head.length - key);
    const i64 first = key * head.stride;
    copy_rows(qkv, head.v_offset + first, head.stride, n_keys, width, 1.0F, s.k);
    kernels.transpose(n_keys, width, s.k, width, 1.0F, s.v_transposed, block);
    copy_rows(qkv, head.k_offset + first, head.stride, n_keys, width, 1.0F, s.k);
    kernels.transpose(n_keys, width, s.k, width, 1.0F, s.k_transposed, block);
    for (i64 query = key; query < head.length; query += block) {
        const i64 n_queries = std::min(block, head.length - query);
        if (head.first_key(query, query + n_queries) >= key + n_keys) continue;
        block_gradient(head, query, n_queries, key, n_keys, s);
        kernels.small_product(n_keys, width, n_queries, s.p, 1, block, s.dout + query * width,
                              width, s.dv + key * width, width, accumulate);
        kernels.small_product(n_keys, width, n_queries, s.dp, 1, block, s.q + query * width, width,
                              s.dk + key * width, width, accumulate);
        kernels.small_product(n_queries, width, n_keys, s.dp, block, 1, s.k, width,
                              s.dq + query * width, width, true);
        accumulate = true;
    }
}

void store_rows(const BackwardHead& head, i64 offset, float factor, float* rows) {
    const Target dqkv(head.a.dqkv);
    for (i64 t = 0; t < head.length; ++t) {
        dqkv.put(offset + t * head.stride, factor, rows + t * head.width, head.width);
    }
}

// Computes the gradients of one head. Stores dk and dv only for the last head of the group, when
// they are complete.
void backward_head(const BackwardHead& head, const BackwardScratch& s) {
    const i64 in_group = head.a.n_heads / head.a.n_groups;
    const i64 number = head.head % in_group;
    load_head(head, s);
    for (i64 key = 0; key < head.length; key += block) backward_keys(head, key, number > 0, s);
    store_rows(head, head.q_offset, static_cast<float>(head.a.scale), s.dq);
    if (number + 1 < in_group) return;
    store_rows(head, head.k_offset, 1.0F, s.dk);
    store_rows(head, head.v_offset, 1.0F, s.dv);
}

}  // namespace

namespace fast {

void attention_forward(device::Context& context, const AttentionForward& a) {
    if (uses_bf16_products(a.qkv.dtype)) return attention_forward_bf16(context, a);
    if (!is_fast_type(a.qkv.dtype)) no_such_type(a.qkv.dtype);
    ThreadPool& pool = pool_of(context);
    const i64 floats = cost::attention_forward_floats(a.head_dim);
    float* const base = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    const i64 n_blocks = ceil_div(a.qkv[1], block);
    const i64 n_heads = a.qkv[0] * a.n_heads;
    pool.run(n_blocks * n_heads, [&](i64 task, int worker) {
        const i64 query =
            (n_blocks - 1 - task / n_heads) * block;  // blocks with the most keys first
        const i64 index = task % n_heads;
        const HeadRows<AttentionForward> head(a, index / a.n_heads, index % a.n_heads);
        forward_block(head, query, ForwardScratch(base + worker * floats, a.head_dim));
    });
}

void attention_backward(device::Context& context, const AttentionBackward& a) {
    if (uses_bf16_products(a.qkv.dtype)) return attention_backward_bf16(context, a);
    if (!is_fast_type(a.qkv.dtype)) no_such_type(a.qkv.dtype);
    ThreadPool& pool = pool_of(context);
    const i64 floats = cost::attention_backward_floats(a.qkv[1], a.head_dim);
    float* const base = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    const i64 in_group = a.n_heads / a.n_groups;
    pool.run(a.qkv[0] * a.n_groups, [&](i64 task, int worker) {
        const BackwardScratch scratch(base + worker * floats, a.qkv[1], a.head_dim);
        const i64 first = task % a.n_groups * in_group;
        for (i64 h = first; h < first + in_group; ++h) {
            backward_head(BackwardHead(a, task / a.n_groups, h), scratch);
        }
    });
}

}  // namespace fast
}  // namespace lm::cpu
