// SPDX-License-Identifier: Apache-2.0
// The operations of a model, declared once for all devices. Model code calls the checked functions
// declared at the end, for example device::linear_forward(context, {...}). They verify shapes and
// dtypes (device/op_checks.hpp) and call the operation in the device's table.
//
// Letters: B micro-batch, T sequence, N = B*T rows, C hidden, H heads, G key-value groups, D head
// dimension, F feed-forward, V vocabulary rows of this rank, P positions. Linear layers have the
// letters of a GEMM instead: M rows, N outputs and K inputs.
//
// `bf16|fp16|fp32` is the compute type: one type for all such arguments of a call. Statistics,
// losses and gradients of parameters are fp32. Tests also call every operation with fp64 as the
// compute type; statistics are then fp64, too. All views are contiguous and row-major. "Optional"
// arguments may be an empty View. An operation adds to the outputs marked "accumulated" and
// overwrites all others. No operation allocates, synchronizes or reads globals.
#pragma once

#include <span>

#include "device/device.hpp"
#include "spec/model.hpp"
#include "spec/optimizer_config.hpp"

namespace lm::device {

// Dropout. The mask depends only on (seed, global sample index, layer, site, element), not on the
// layout or the threads, so backward recomputes it. The elements of a sample have numbers: t *
// width + column in a row operation; (head * T + query) * T + key in attention, with the global
// number of the head.
struct Dropout {
    double p = 0.0;
    double scale = 1.0;  // row operations: another factor of all elements
    u64 seed = 0;
    i32 layer = 0;
    i32 site = 0;        // DropoutSite
    View sample_ids{};   // [B] int64: global sample index of each sample of the micro-batch
    i64 first_head = 0;  // attention: global number of local head 0
    // For row operations on a part of the rows of a micro-batch (sequence parallelism). first_row:
    // index of the call's row 0 among all rows of the micro-batch. sample_rows: rows of a sample
    // (T); 0: the call has all rows of the micro-batch.
    i64 first_row = 0;
    i64 sample_rows = 0;
    bool on() const { return p > 0.0 || scale != 1.0; }
};
enum DropoutSite : i32 {
    embedding_site = 0,
    attention_site = 1,
    attention_output_site = 2,
    mlp_output_site = 3
};

// ---- Embedding --------------------------------------------------------------------------------

// out[n] = table[tokens[n] - vocab_start] + position_table[positions[n]]; the first term is zero
// when another rank holds the row.
struct EmbeddingForward {
    View tokens{};  // [N] int32
    View table{};   // [V, C] bf16|fp16|fp32
    i64 vocab_start = 0;
    View positions{};       // [N] int32; optional
    View position_table{};  // [P, C] bf16|fp16|fp32; present if `positions` is
    View out{};             // [N, C] bf16|fp16|fp32
};

// dtable[tokens[n] - vocab_start] += dout[n]; dposition_table[positions[n]] += dout[n]. token_order
// and position_order list the rows n sorted by tokens[n] and positions[n], rows with equal values
// by ascending n. A GPU needs the list of each table; the CPU ignores the lists.
struct EmbeddingBackward {
    View tokens{};       // [N] int32
    View token_order{};  // [N] int32
    View dout{};         // [N, C] bf16|fp16|fp32
    View dtable{};       // [V, C] fp32, accumulated
    i64 vocab_start = 0;
    View positions{};        // [N] int32; optional
    View position_order{};   // [N] int32; none if `positions` is none
    View dposition_table{};  // [P, C] fp32, accumulated; present if `positions` is
};

// ---- Linear -----------------------------------------------------------------------------------

// Linear layers use no activation or one without a gate. Gated operations use a gated unit
// (Shazeer 2020, "GLU variants improve transformer").
using spec::Activation;

// y = activation(x w^T + bias). pre_activation receives x w^T + bias, which backward needs.
struct LinearForward {
    View x{};     // [M, K] bf16|fp16|fp32
    View w{};     // [N, K] bf16|fp16|fp32
    View bias{};  // [N] bf16|fp16|fp32; optional
    View y{};     // [M, N] bf16|fp16|fp32
    Activation activation = Activation::none;
    View pre_activation{};  // [M, N] bf16|fp16|fp32; none without an activation
    // If true, y is computed from the stored (rounded) pre_activation instead of the fp32 sum. Then
    // activation_forward() can recompute y from pre_activation with the same bits.
    bool recomputed = false;
};

// y = activation(x). If x is the pre_activation of a linear_forward with `recomputed`, y has the
// same bits as the y of linear_forward.
struct ActivationForward {
    View x{};  // [M, N] bf16|fp16|fp32
    View y{};  // [M, N] bf16|fp16|fp32
    Activation activation = Activation::none;
};

// dx = (dy w) * activation'(pre_activation). With an activation, this layer's input was
// activation(pre_activation), and this product includes the backward of that activation.
struct LinearBackwardInput {
    View dy{};  // [M, N] bf16|fp16|fp32
    View w{};   // [N, K] bf16|fp16|fp32
    View dx{};  // [M, K] bf16|fp16|fp32
    Activation activation = Activation::none;
    View pre_activation{};  // [M, K] bf16|fp16|fp32; none without an activation
};

// dw = dy^T x; dbias = the sum of each column of dy. If `accumulate` is set, both are accumulated.
struct LinearBackwardWeight {
    View dy{};     // [M, N] bf16|fp16|fp32
    View x{};      // [M, K] bf16|fp16|fp32
    View dw{};     // [N, K] fp32
    View dbias{};  // [N] fp32; optional
    bool accumulate = true;
};

// y = gate(x[:, :F]) * x[:, F:]. One product computes the gate and the up projection: a row of x
// has the gate first, then the up projection.
struct GatedForward {
    Activation gate = Activation::swiglu;  // a gated unit
    View x{};                              // [N, 2F] bf16|fp16|fp32
    View y{};                              // [N, F] bf16|fp16|fp32
};

struct GatedBackward {
    Activation gate = Activation::swiglu;  // a gated unit
    View dy{};                             // [N, F] bf16|fp16|fp32
    View x{};                              // [N, 2F] bf16|fp16|fp32: forward's input
    View dx{};                             // [N, 2F] bf16|fp16|fp32
};

// ---- Residual + norm --------------------------------------------------------------------------

using Norm = spec::Normalization;

// Returns the number to add to a norm's weight. Adding -0 changes no bit of a weight.
constexpr float norm_offset(bool one_plus) {
    return one_plus ? 1.0F : -0.0F;
}

// sum = residual + dropout(branch); y = norm(sum) * (weight + offset) + bias. The offset is 1 with
// `one_plus` (LayerNorm-1p), else 0.
struct ResidualNormForward {
    Norm norm = Norm::layer_norm;
    double eps = 1e-5;
    View branch{};    // [N, C] bf16|fp16|fp32; optional: without it sum = residual
    View residual{};  // [N, C] bf16|fp16|fp32; optional: without it sum = dropout(branch)
    Dropout dropout;  // applied to branch; width C
    View sum{};       // [N, C] bf16|fp16|fp32; may alias residual or branch; optional: not stored
    View weight{};    // [C] bf16|fp16|fp32; none if y is none: then only sum is computed
    View bias{};      // [C] bf16|fp16|fp32; optional
    View y{};         // [N, C] bf16|fp16|fp32; optional
    View mean{};      // [N] fp32; none for rms_norm
    View rstd{};      // [N] fp32: 1 / sqrt(variance + eps)
    bool one_plus = false;
};

// dsum = dsum_in + norm'(dy); dbranch = dropout'(dsum). dsum_in is the gradient that reaches `sum`
// from later layers. Without dy, dsum = dsum_in; then sum, weight, the statistics and the gradients
// of the parameters must be none, too. dbranch_bias, the sums of the branch's gradient over rows,
// is the gradient of the bias of the linear layer that computed the branch. The sums over rows are
// accumulated when `accumulate` is set.
struct ResidualNormBackward {
    Norm norm = Norm::layer_norm;
    View dy{};       // [N, C] bf16|fp16|fp32; optional
    View sum{};      // [N, C] bf16|fp16|fp32: forward's output
    View weight{};   // [C] bf16|fp16|fp32
    View mean{};     // [N] fp32: forward's output; none for rms_norm
    View rstd{};     // [N] fp32: forward's output
    View dsum_in{};  // [N, C] bf16|fp16|fp32; optional
    View dsum{};     // [N, C] bf16|fp16|fp32; may alias dsum_in or sum
    Dropout dropout;
    View dbranch{};  // [N, C] bf16|fp16|fp32; optional
    View dweight{};  // [C] fp32
    View dbias{};    // [C] fp32; optional
    bool one_plus = false;
    bool accumulate = true;
    View dbranch_bias{};  // [C] fp32; optional; sum over rows of dbranch, else of dsum
};

// ---- Norms of attention heads -------------------------------------------------------------------

// QK norm (Henry et al. 2020, "Query-key normalization"): each head of query and key is normalized
// by itself, before the rotary embedding. For each token, a row has H query heads, then G key
// heads, then values, each D wide.

// Computes y = norm(x) * (weight + offset) + bias for each head of query and key, and copies the
// values. The offset is 1 with `one_plus`, else 0.
struct HeadNormForward {
    Norm norm = Norm::layer_norm;
    double eps = 1e-5;
    View x{};             // [B, T, W] bf16|fp16|fp32, W a multiple of D
    View query_weight{};  // [D] bf16|fp16|fp32
    View query_bias{};    // [D] bf16|fp16|fp32; optional
    View key_weight{};    // [D] bf16|fp16|fp32
    View key_bias{};      // [D] bf16|fp16|fp32; present if query_bias is
    View y{};             // [B, T, W] bf16|fp16|fp32
    i64 n_heads = 0;      // H
    i64 n_groups = 0;     // G
    bool one_plus = false;
};

// Computes dx = norm'(dy) for each head of query and key, and copies the gradients of the values.
// Recomputes the statistics of the heads, because forward does not store them. Adds to the
// gradients of the parameters when `accumulate` is set, else overwrites them.
struct HeadNormBackward {
    Norm norm = Norm::layer_norm;
    double eps = 1e-5;
    View dy{};             // [B, T, W] bf16|fp16|fp32
    View x{};              // [B, T, W] bf16|fp16|fp32: forward's input
    View query_weight{};   // [D] bf16|fp16|fp32
    View key_weight{};     // [D] bf16|fp16|fp32
    View dx{};             // [B, T, W] bf16|fp16|fp32; may alias dy
    View dquery_weight{};  // [D] fp32
    View dquery_bias{};    // [D] fp32; optional
    View dkey_weight{};    // [D] fp32
    View dkey_bias{};      // [D] fp32; present if dquery_bias is
    i64 n_heads = 0;
    i64 n_groups = 0;
    bool one_plus = false;
    bool accumulate = true;
};

// The widest head that the operations support.
constexpr i64 widest_normed_head = 256;

// One RMSNorm over all heads of the query and one over those of the key (OLMo 2). A row of x has Q
// columns of the query, then K of the key, then values. Tensor ranks hold a part of the columns, so
// the sums over a row are an operation of their own, after which the ranks can add their parts.

// sums[0] = the sum over the columns of the query of a * b * (weight + offset), sums[1] that of the
// key; without weights the factor is 1. Forward needs the sums of x * x, backward those of dy * x *
// weight. The offset is 1 with `one_plus`, else 0.
struct JointNormSums {
    View a{};             // [B, T, W] bf16|fp16|fp32
    View b{};             // [B, T, W] bf16|fp16|fp32
    View query_weight{};  // [Q] bf16|fp16|fp32; optional
    View key_weight{};    // [K] bf16|fp16|fp32; present if query_weight is
    i64 query = 0;        // Q
    i64 key = 0;          // K
    bool one_plus = false;
    View sums{};  // [2, B*T] fp32
};

// y = x / rms(x) * (weight + offset), where rms(x)^2 is the mean of the squares plus eps; copies
// the values. `share` is the share of the columns of a row that this rank has.
struct JointNormForward {
    double eps = 1e-5;
    View x{};             // [B, T, W] bf16|fp16|fp32
    View query_weight{};  // [Q] bf16|fp16|fp32
    View key_weight{};    // [K] bf16|fp16|fp32
    View squares{};       // [2, B*T] fp32: sums of x * x over all ranks
    View y{};             // [B, T, W] bf16|fp16|fp32
    double share = 1;
    bool one_plus = false;
};

// Computes dx, and copies the gradients of the values. Adds to the gradients of the weights when
// `accumulate` is set, else overwrites them.
struct JointNormBackward {
    double eps = 1e-5;
    View dy{};             // [B, T, W] bf16|fp16|fp32
    View x{};              // [B, T, W] bf16|fp16|fp32: forward's input
    View query_weight{};   // [Q] bf16|fp16|fp32
    View key_weight{};     // [K] bf16|fp16|fp32
    View squares{};        // [2, B*T] fp32: forward's input
    View products{};       // [2, B*T] fp32: sums of dy * x * (weight + offset) over all ranks
    View dx{};             // [B, T, W] bf16|fp16|fp32; may alias dy
    View dquery_weight{};  // [Q] fp32
    View dkey_weight{};    // [K] fp32
    double share = 1;
    bool one_plus = false;
    bool accumulate = true;
};

// ---- Attention --------------------------------------------------------------------------------

// Rotates the first E elements of the first n_heads heads of each row in place (rotary position
// embedding, Su et al. 2021, "RoFormer"). Each pair (a, b) = (x[i], x[i + E/2]) of a head, or
// (x[2i], x[2i + 1]) if interleaved, becomes (a cos t - b sin t, b cos t + a sin t), where t is the
// angle of (position, i). Backward is the inverse rotation of the gradient.
struct Rotary {
    View x{};          // [B, T, W] bf16|fp16|fp32, W >= n_heads * D: qkv, queries and keys first
    View positions{};  // [B, T] int32
    View angles{};     // [P, E] fp32, E <= D even: E/2 cosines, then E/2 sines for each position
    i64 n_heads = 0;
    i64 head_dim = 0;  // D
    bool inverse = false;
    bool interleaved = false;
};

// out = softmax(scale * q k^T + slope * (key - query)) v over the keys doc_start <= key <= query,
// without a T x T matrix in memory. slope is the head's element of alibi_slopes. For each token,
// qkv has H query heads, then G key heads, then G value heads, each D wide. Query head h uses group
// h / (H/G).
struct AttentionForward {
    View qkv{};        // [B, T, (H+2G)*D] bf16|fp16|fp32
    View out{};        // [B, T, H*D] bf16|fp16|fp32
    View lse{};        // [B, H, T] fp32: log of the sum of exp(scores)
    i64 n_heads = 0;   // H
    i64 n_groups = 0;  // G
    i64 head_dim = 0;  // D
    double scale = 0;
    View doc_start{};  // [B, T] int32: first visible key of each query, not decreasing; none: key 0
    View alibi_slopes{};  // [H] fp32, of the local heads (Press et al. 2022); optional
    Dropout dropout;      // applied to the probabilities
};

struct AttentionBackward {
    View dout{};  // [B, T, H*D] bf16|fp16|fp32
    View qkv{};   // [B, T, (H+2G)*D] bf16|fp16|fp32: forward's input
    View out{};   // [B, T, H*D] bf16|fp16|fp32: forward's output
    View lse{};   // [B, H, T] fp32: forward's output
    View dqkv{};  // [B, T, (H+2G)*D] bf16|fp16|fp32
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 head_dim = 0;
    double scale = 0;
    View doc_start{};     // [B, T] int32; optional
    View alibi_slopes{};  // [H] fp32; optional
    Dropout dropout;
};

// ---- Loss -------------------------------------------------------------------------------------

// Statistics of one rank's columns of the logits. Columns n_valid and above are padding and are
// ignored.
// row_max = max of the valid logits; row_sum = sum of exp(logit - row_max);
// target_logit = the target's logit when this rank holds it, else 0.
// Tensor-parallel ranks combine the three statistics before cross_entropy_loss and
// cross_entropy_backward.
struct CrossEntropyStats {
    View logits{};   // [N, V] bf16|fp16|fp32
    View targets{};  // [N] int32: global token ids
    i64 vocab_start = 0;
    i64 n_valid = 0;      // valid columns of this rank
    View row_max{};       // [N] fp32
    View row_sum{};       // [N] fp32
    View target_logit{};  // [N] fp32
};

// Rescales row_sum from this rank's maximum to the maximum over the tensor-parallel ranks: row_sum
// *= exp(local_max - row_max). A rank without valid columns has local_max = -inf and row_sum = 0.
struct CrossEntropyRescale {
    View local_max{};  // [N] fp32: this rank's row_max
    View row_max{};    // [N] fp32: the maximum over the tensor-parallel ranks
    View row_sum{};    // [N] fp32, in place
};

// loss = log(row_sum) + row_max - target_logit, per row, unweighted.
struct CrossEntropyLoss {
    View row_max{}, row_sum{};  // [N] fp32
    View target_logit{};        // [N] fp32
    View losses{};              // [N] fp32
};

// Replaces logits by weight * grad_scale * (softmax - one_hot(target)), padding columns by 0.
struct CrossEntropyBackward {
    View logits{};   // [N, V] bf16|fp16|fp32, in place
    View targets{};  // [N] int32: global token ids
    i64 vocab_start = 0;
    i64 n_valid = 0;  // valid columns of this rank
    View row_max{};   // [N] fp32
    View row_sum{};   // [N] fp32
    View weight{};    // [N] fp32: weights of the tokens in the loss
    double grad_scale = 1.0;
};

// Computes statistics, loss and backward (stats_of() and its siblings) on a rank that has all
// columns. Reads the logits once if a row fits into the device's on-chip memory.
struct CrossEntropy {
    View logits{};   // [N, V] bf16|fp16|fp32, in place
    View targets{};  // [N] int32
    i64 n_valid = 0;
    View weight{};  // [N] fp32
    double grad_scale = 1.0;
    View row_max{}, row_sum{}, target_logit{}, losses{};  // [N] fp32
};

// Return the arguments of the single operations that the operation cross_entropy combines.
inline CrossEntropyStats stats_of(const CrossEntropy& a) {
    return {a.logits, a.targets, 0, a.n_valid, a.row_max, a.row_sum, a.target_logit};
}
inline CrossEntropyLoss loss_of(const CrossEntropy& a) {
    return {a.row_max, a.row_sum, a.target_logit, a.losses};
}
inline CrossEntropyBackward backward_of(const CrossEntropy& a) {
    return {a.logits, a.targets, 0, a.n_valid, a.row_max, a.row_sum, a.weight, a.grad_scale};
}

// ---- Flat parameters ---------------------------------------------------------------------------

// A contiguous range of the parameters that AdamW updates.
struct AdamWPart {
    i64 param_begin = 0;  // first element in weight and grad
    i64 state_begin = 0;  // first element in master, m and v, which may be only this rank's shard
    i64 size = 0;
    bool decay = true;
};
// AdamW with decoupled decay (Loshchilov & Hutter, 2019), as apex FusedAdam with adam_w_mode. For
// an element p of master at step t, b1 = beta1 and b2 = beta2 of config, g = grad_scale * grad:
// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// p -= lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay * p).
// One call updates all parts of a rank's parameters; elements between the parts do not change. n is
// the number of parameters, s the number with optimizer state on this rank (s < n with the
// distributed optimizer).
struct AdamW {
    View master{};  // [s] fp32; if weight is none: [n] fp32 weights, indexed by param_begin
    View weight{};  // [n] bf16|fp16|fp32, written from master; optional
    View grad{};    // [n] fp32
    View m{}, v{};  // [s] fp32: first and second moments
    std::span<const AdamWPart> parts{};
    double lr = 0;
    spec::AdamWConfig config{};  // clip_grad has no effect: grad_scale includes the clipping
    i64 step = 1;                // t, from 1
    double grad_scale = 1.0;
};

// out = sum of squares of x, summed in fp64 by a fixed tree, so the bits do not depend on the
// number of threads.
struct SumSquares {
    View x{};                 // [...] fp32
    View out{};               // [1] fp64
    bool accumulate = false;  // add to out instead of overwriting it
};

// out = sum over n of x[n] * weight[n] (a loss), summed in fp64 by a fixed tree.
struct WeightedSum {
    View x{}, weight{};  // [N] fp32
    View out{};          // [1] fp64
    bool accumulate = false;
};

// out = number of elements of x that are zero.
struct CountZeros {
    View x{};    // [...] fp32
    View out{};  // [1] fp64
    bool accumulate = false;
};

// out += sum over n of element_hash(first_index + n, bits of x[n]), modulo 2^64.
struct Fingerprint {
    View x{};             // [N] any dtype of 2 or 4 bytes
    i64 first_index = 0;  // index of x[0] in its tensor
    View out{};           // [1] int64
};

// x = value, element by element.
struct Fill {
    View x{};  // [...] bf16|fp16|fp32
    double value = 0;
};

// y = x, converted to y's type.
struct Cast {
    View x{}, y{};  // [...] bf16|fp16|fp32, of one shape
};

// x *= factor.
struct Scale {
    View x{};  // [...] bf16|fp16|fp32, in place
    double factor = 1;
};

// Calls X(name, Args) for every operation. OpTable, the checked calls and the tests use this list.
#define LM_OPS(X)                                   \
    X(embedding_forward, EmbeddingForward)          \
    X(embedding_backward, EmbeddingBackward)        \
    X(linear_forward, LinearForward)                \
    X(activation_forward, ActivationForward)        \
    X(linear_backward_input, LinearBackwardInput)   \
    X(linear_backward_weight, LinearBackwardWeight) \
    X(gated_forward, GatedForward)                  \
    X(gated_backward, GatedBackward)                \
    X(residual_norm_forward, ResidualNormForward)   \
    X(residual_norm_backward, ResidualNormBackward) \
    X(head_norm_forward, HeadNormForward)           \
    X(head_norm_backward, HeadNormBackward)         \
    X(joint_norm_sums, JointNormSums)               \
    X(joint_norm_forward, JointNormForward)         \
    X(joint_norm_backward, JointNormBackward)       \
    X(rotary, Rotary)                               \
    X(attention_forward, AttentionForward)          \
    X(attention_backward, AttentionBackward)        \
    X(cross_entropy_stats, CrossEntropyStats)       \
    X(cross_entropy_rescale, CrossEntropyRescale)   \
    X(cross_entropy_loss, CrossEntropyLoss)         \
    X(cross_entropy_backward, CrossEntropyBackward) \
    X(cross_entropy, CrossEntropy)                  \
    X(adamw, AdamW)                                 \
    X(sum_squares, SumSquares)                      \
    X(weighted_sum, WeightedSum)                    \
    X(count_zeros, CountZeros)                      \
    X(fingerprint, Fingerprint)                     \
    X(fill, Fill)                                   \
    X(cast, Cast)                                   \
    X(scale, Scale)

// The members are references, so that a backend without one of the operations does not compile.
struct OpTable {
#define LM_OP_MEMBER(name, Args) void (&name)(Context&, const Args&);
    LM_OPS(LM_OP_MEMBER)
#undef LM_OP_MEMBER
};

#define LM_OP_CALL(name, Args) void name(Context& context, const Args& args);
LM_OPS(LM_OP_CALL)
#undef LM_OP_CALL

}  // namespace lm::device
