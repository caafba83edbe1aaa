// SPDX-License-Identifier: Apache-2.0
// The operations of a model, once for all devices. Model code calls the checked functions at the
// end (device::linear_forward(context, {...})), which verify shapes and types and call the device's
// table.
//
// Letters: B micro-batch, T sequence, N = B*T rows, C hidden, H heads, G key-value groups, D head
// dimension, F feed-forward, V vocabulary rows held by this rank. All views are contiguous and
// row-major. Accumulating outputs add to what is there; all others are overwritten. Activations and
// weights have one of the compute types (f32; bf16 and f16 where the backend has them); statistics,
// losses and all gradients of parameters are f32. No operation allocates, synchronises or reads
// globals.
#pragma once

#include <span>

#include "device/device.hpp"
#include "spec/activation.hpp"

namespace lm::device {

// Dropout keyed by (seed, global sample index, layer, site, element): the same mask in every
// layout, micro-batch and thread count, so that backward makes it again instead of storing it. The
// element number counts inside one sample: t * width + column for a row operation; (head * T +
// query) * T + key for attention, with global head and T numbers.
struct Dropout {
    double p = 0.0;  // 0: off
    u64 seed = 0;
    i32 layer = 0;
    i32 site = 0;        // DropoutSite
    View sample_ids{};   // [B] i64: global sample index of each row of the micro-batch
    i64 first_head = 0;  // attention: global number of local head 0
    // Row operations on a part of the micro-batch's rows (sequence parallelism): the number of
    // local row 0 among all, and T. 0: the rows are all there are.
    i64 first_row = 0;
    i64 sample_rows = 0;
    bool on() const { return p > 0.0; }
};
enum DropoutSite : i32 {
    embedding_site = 0,
    attention_site = 1,
    attention_output_site = 2,
    mlp_output_site = 3
};

using spec::Activation;

// ---- Embedding --------------------------------------------------------------------------------

// out[n] = table[tokens[n] - vocab_start] (zero when another rank holds the row) +
// position_table[positions[n]].
struct EmbeddingForward {
    View tokens{};  // [N] i32
    View table{};   // [V, C]
    i64 vocab_start = 0;
    View positions{};       // [N] i32, or none
    View position_table{};  // [P, C], or none
    View out{};             // [N, C]
};

struct EmbeddingBackward {
    View tokens{};
    View dout{};    // [N, C]
    View dtable{};  // [V, C] f32, accumulated
    i64 vocab_start = 0;
    View positions{};        // or none
    View dposition_table{};  // [P, C] f32, accumulated; or none
};

// ---- Linear -----------------------------------------------------------------------------------

// y = activation(x w^T + bias); pre_activation keeps x w^T + bias for backward.
struct LinearForward {
    View x{};     // [N, K]
    View w{};     // [M, K]
    View bias{};  // [M], or none
    View y{};     // [N, M]
    Activation activation = Activation::none;
    View pre_activation{};  // [N, M] when activation is not none
    // activation_forward() is going to make y again, from pre_activation, with the same bits: y is
    // the activation of what is kept, not of the sum before it was rounded.
    bool made_again = false;
};

// y = activation(x), with the bits that linear_forward gave it where that was told so.
struct ActivationForward {
    View x{};  // [N, M]
    View y{};  // [N, M]
    Activation activation = Activation::none;
};

// dx = (dy w) * activation'(pre_activation): with an activation, the gradient goes on through the
// activation that made this layer's input.
struct LinearBackwardInput {
    View dy{};  // [N, M]
    View w{};   // [M, K]
    View dx{};  // [N, K]
    Activation activation = Activation::none;
    View pre_activation{};  // [N, K] when activation is not none
};

struct LinearBackwardWeight {
    View dy{};     // [N, M]
    View x{};      // [N, K]
    View dw{};     // [M, K] f32
    View dbias{};  // [M] f32, or none
    bool accumulate = true;
};

// y = gate(x[:, :F]) * x[:, F:]; gate and up projection lie side by side in one product's rows.
struct GatedForward {
    Activation gate = Activation::swiglu;  // swiglu or geglu
    View x{};                              // [N, 2F]
    View y{};                              // [N, F]
};

struct GatedBackward {
    Activation gate = Activation::swiglu;  // swiglu or geglu
    View dy{};                             // [N, F]
    View x{};                              // [N, 2F]
    View dx{};                             // [N, 2F]
};

// ---- Residual + norm --------------------------------------------------------------------------

enum class Norm { layer_norm, rms_norm };

// sum = residual + dropout(branch); y = norm(sum) * weight + bias.
struct ResidualNormForward {
    Norm norm = Norm::layer_norm;
    double eps = 1e-5;
    View branch{};    // [N, C], or none: sum = residual
    View residual{};  // [N, C], or none: sum = dropout(branch)
    Dropout dropout;  // of branch; width C
    View sum{};       // [N, C]; may be `residual` or `branch` itself; or none: not kept
    View weight{};    // [C], or none with y none: only the sum
    View bias{};      // [C], or none
    View y{};         // [N, C], or none
    View mean{};      // [N] f32; none for rms_norm
    View rstd{};      // [N] f32
};

// From dy and the gradient dsum_in that reaches `sum` from later layers:
// dsum = dsum_in + norm'(dy); dbranch = dropout'(dsum). Without dy, the sum alone: dsum = dsum_in;
// then sum, weight, statistics and their gradients are none as well.
struct ResidualNormBackward {
    Norm norm = Norm::layer_norm;
    View dy{};   // [N, C], or none
    View sum{};  // [N, C] from forward
    View weight{};
    View mean{};
    View rstd{};
    View dsum_in{};  // [N, C], or none
    View dsum{};     // [N, C]; may be dsum_in or sum
    Dropout dropout;
    View dbranch{};  // [N, C], or none
    View dweight{};  // [C] f32, accumulated
    View dbias{};    // [C] f32, accumulated; or none
};

// ---- Attention --------------------------------------------------------------------------------

// Rotary position embedding (Su et al. 2021, "RoFormer"), in place, of the first n_heads heads of
// each row: with pairs (a, b) = (x[i], x[i + D/2]) of a head and the angle t of (position, i),
// a' = a cos t - b sin t, b' = b cos t + a sin t. Backward is the inverse rotation of the gradient.
struct Rotary {
    View x{};          // [B, T, W], W >= n_heads * D: queries and keys come first in qkv
    View positions{};  // [B, T] i32
    View angles{};     // [P, D] f32: D/2 cosines, then D/2 sines, of each position
    i64 n_heads = 0;
    i64 head_dim = 0;  // D, even
    bool inverse = false;
};

// softmax(scale * q k^T + slope * (key - query), causal, from doc_start on) v, without a T x T
// matrix. qkv holds for each token H query heads, then G key heads, then G value heads, D wide
// each; query head h uses group h / (H/G).
struct AttentionForward {
    View qkv{};        // [B, T, (H+2G)*D]
    View out{};        // [B, T, H*D]
    View lse{};        // [B, H, T] f32: log of the softmax denominator, scores included
    i64 n_heads = 0;   // H
    i64 n_groups = 0;  // G
    i64 head_dim = 0;  // D
    double scale = 0;
    View doc_start{};     // [B, T] i32: first key that a query sees, never decreasing; or none: 0
    View alibi_slopes{};  // [H] f32 of the local heads, or none (Press et al. 2021)
    Dropout dropout;      // of the probabilities
};

struct AttentionBackward {
    View dout{};  // [B, T, H*D]
    View qkv{};
    View out{};
    View lse{};
    View dqkv{};  // [B, T, (H+2G)*D]
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 head_dim = 0;
    double scale = 0;
    View doc_start{};
    View alibi_slopes{};
    Dropout dropout;
};

// ---- Loss -------------------------------------------------------------------------------------

// Statistics of one rank's share of the logits. Columns from n_valid on are padding and masked out.
// row_max = max of the valid logits; row_sum = sum of exp(logit - row_max);
// target_logit = the target's logit when this rank holds it, else 0.
// Tensor ranks combine these three before the operations that follow.
struct CrossEntropyStats {
    View logits{};   // [N, V]
    View targets{};  // [N] i32, global ids
    i64 vocab_start = 0;
    i64 n_valid = 0;      // valid columns of this rank
    View row_max{};       // [N] f32
    View row_sum{};       // [N] f32
    View target_logit{};  // [N] f32
};

// From this rank's largest logit to the largest of all ranks: row_sum *= exp(local_max - row_max).
// A share without valid columns has local_max -inf and row_sum 0.
struct CrossEntropyRescale {
    View local_max{};  // [N] f32
    View row_max{};    // [N] f32
    View row_sum{};    // [N] f32
};

// loss = log(row_sum) + row_max - target_logit, per row, unweighted.
struct CrossEntropyLoss {
    View row_max{};
    View row_sum{};
    View target_logit{};
    View losses{};  // [N] f32
};

// In place: logits become weight * grad_scale * (softmax - one_hot(target)); padding becomes 0.
struct CrossEntropyBackward {
    View logits{};  // [N, V]
    View targets{};
    i64 vocab_start = 0;
    i64 n_valid = 0;
    View row_max{};
    View row_sum{};
    View weight{};  // [N] f32: loss mask
    double grad_scale = 1.0;
};

// ---- Flat parameters ---------------------------------------------------------------------------

// AdamW with decoupled decay (Loshchilov & Hutter, 2019), as apex FusedAdam with adam_w_mode:
// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
// p -= lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay * p), g = grad_scale * grad.
// All stretches of a rank's parameters at once; what lies between them stays as it is.
struct AdamWPart {
    i64 flat = 0;  // its first element in weight and grad
    i64 held = 0;  // in master, m and v: a rank may hold those of its part alone
    i64 size = 0;
    bool decay = true;
};
struct AdamW {
    View master{};  // [H] f32; without weight [n]: it is the weight, and lies as weight would
    View weight{};  // [n] compute type, written from master; or none
    View grad{};    // [n] f32
    View m{};       // [H] f32
    View v{};       // [H] f32
    std::span<const AdamWPart> parts{};
    double lr = 0;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;
    i64 step = 1;  // t, from 1
    double grad_scale = 1.0;
};

// out = sum of squares of x in f64, by a fixed tree: the same bits for any number of threads.
struct SumSquares {
    View x{};    // f32
    View out{};  // [1] f64; overwritten, or added to with accumulate
    bool accumulate = false;
};

// out = sum over rows of a * weight, in f64 by a fixed tree (losses).
struct WeightedSum {
    View x{};       // [N] f32
    View weight{};  // [N] f32
    View out{};     // [1] f64
    bool accumulate = false;
};

struct CountZeros {
    View x{};    // f32
    View out{};  // [1] f64
    bool accumulate = false;
};

struct Fill {
    View x{};  // f32 or compute type
    double value = 0;
};

// y = x, converted to y's type.
struct Cast {
    View x{};
    View y{};
};

// x *= factor.
struct Scale {
    View x{};
    double factor = 1;
};

// Every operation by name: X(name, Args). The table, the checked calls and the op tests use this
// list.
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
    X(rotary, Rotary)                               \
    X(attention_forward, AttentionForward)          \
    X(attention_backward, AttentionBackward)        \
    X(cross_entropy_stats, CrossEntropyStats)       \
    X(cross_entropy_rescale, CrossEntropyRescale)   \
    X(cross_entropy_loss, CrossEntropyLoss)         \
    X(cross_entropy_backward, CrossEntropyBackward) \
    X(adamw, AdamW)                                 \
    X(sum_squares, SumSquares)                      \
    X(weighted_sum, WeightedSum)                    \
    X(count_zeros, CountZeros)                      \
    X(fill, Fill)                                   \
    X(cast, Cast)                                   \
    X(scale, Scale)

// References, not pointers: a backend that leaves one out does not compile.
struct OpTable {
#define LM_OP_MEMBER(name, Args) void (&name)(Context&, const Args&);
    LM_OPS(LM_OP_MEMBER)
#undef LM_OP_MEMBER
};

#define LM_OP_CALL(name, Args) void name(Context& context, const Args& args);
LM_OPS(LM_OP_CALL)
#undef LM_OP_CALL

}  // namespace lm::device
