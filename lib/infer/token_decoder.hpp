// SPDX-License-Identifier: Apache-2.0
// The forward pass over new tokens of one or more sequences. It calls the operations of lib/device
// in the order of the training code in lib/model, but with keys and values of earlier tokens in a
// cache, fp32 activations, and weights of any type. model/pass.hpp defines the letters of shapes; n
// is the number of new tokens of all sequences.
//
// Why generate does not run the modules of lib/model: a training pass has B * T rows of whole
// samples, keeps activations for the backward pass, and reads weights that its ranks divide. Here
// a pass adds one row to a cache, keeps nothing, and reads the files of a checkpoint as they are.
// Each module would have a second mode for that, in the code that must be simplest. The operations
// are shared instead, and so are their proofs. What this pass must not miss is held by the
// compiler: its switches have no default, so that a new kind of position, activation or norm does
// not compile here until it is computed.
#pragma once

#include "infer/kv_cache.hpp"
#include "infer/weight_memory.hpp"

namespace lm::infer {

class TokenDecoder {
  public:
    // The largest number of rows in one call of forward().
    static constexpr i64 most_rows = KvCache::most_tokens;

    // Allocates the activations of most_rows rows, and the keys and values of `sequences` sequences
    // of `context` tokens. `weights` and `device`, which is a CPU device, must outlive the decoder.
    static TokenDecoder allocate(WeightMemory& weights, i64 sequences, i64 context,
                                 device::Device& device);

    // Runs the model on the at most most_rows tokens of `segments`. Returns the output of the final
    // norm, [n, C] fp32, valid until the next call. The bits of a row do not depend on the other
    // segments when each segment has one token.
    View forward(std::span<const i32> tokens, std::span<const Segment> segments);
    // Computes the logits [S, V] fp32 of rows x [S, C] fp32, S <= logit_rows(). With `apart`, the
    // bits of a row do not depend on the other rows.
    View logits(const View& x, bool apart);
    i64 logit_rows() const { return logits_[0]; }
    device::Context context() { return {*device_, workspace_}; }
    const View& row_stats() const { return row_stats_; }
    // KvCache::shortest().
    i64 shortest(i64 length) const { return cache_.shortest(length); }
    // Returns the length beyond which a sequence has other rotary frequencies, so that its keys
    // must be computed again; 0: none.
    i64 original_context() const;

  private:
    TokenDecoder(WeightMemory& weights, device::Device& device, KvCache cache)
        : weights_(&weights), device_(&device), cache_(std::move(cache)) {}
    // Allocates an activation. Returns its view, [shape] of any dtype.
    View reserve(DType dtype, const Shape& shape);
    // Returns the first n rows of a buffer, [n, ...] of any dtype.
    View rows_of(const View& buffer, i64 n) const { return buffer.rows(0, n); }
    void reserve_activations(i64 sequences, i64 context);
    void reserve_rotary(i64 context);
    // out: [n, C] fp32
    void embed(std::span<const i32> tokens, const View& out);
    // x: [n, K] fp32; w: [N, K] of the matrices' type; bias: [N] fp32 or none; y: [n, N] fp32.
    // Rows are computed apart while apart_ is set.
    void linear(const View& x, const View& w, const View& bias, const View& y);
    struct Add {
        View branch;    // [n, C] fp32, or none
        View residual;  // [n, C] fp32, or none
        View sum;       // [n, C] fp32, or none
    };
    // y: [n, C] fp32
    void norm(const Add& add, const model::NormParams& params, const View& y);
    // x, out: [n, C] fp32
    void attention(i64 layer, std::span<const Segment> segments, const View& x, const View& out);
    // x, out: [n, C] fp32
    void mlp(i64 layer, const View& x, const View& out);

    WeightMemory* weights_;
    device::Device* device_;
    KvCache cache_;
    std::vector<device::Buffer> buffers_;
    View workspace_;  // [bytes] uint8
    View band_;       // [floats] fp32: scratch of mixed_linear()
    View stream_;     // [n, C] fp32: the residual stream
    View normed_;     // [n, C] fp32
    View branch_;     // [n, C] fp32
    View qkv_;        // [n * (H+2G)*D] fp32, of the widest layer
    View projected_;  // [n * (H+2G)*D] fp32: query and key before their norm, or none
    View squares_;    // [2, n] fp32: sums of a norm of all heads, or none
    View attended_;   // [n, H*D] fp32
    View up_;         // [n * U] fp32, of the widest layer
    View activated_;  // [n, F] fp32
    View mean_;       // [n] fp32
    View rstd_;       // [n] fp32
    View positions_;  // [1, n] int32
    std::vector<spec::RotaryFrequencies> rotary_;
    // For each of rotary_, [P, E] fp32; if frequencies depend on the length of a sequence, [2P, E]
    // with the angles of longer sequences last.
    std::vector<View> angles_;
    View query_scales_;   // [P, D] or [2P, D] fp32: model::query_scales(), or none
    i64 longer_row_ = 0;  // first row of longer sequences; 0: all have the same
    View logits_;         // [S, V] fp32
    View row_stats_;      // [3, S] fp32: maximum, sum, target logit
    bool apart_ = false;
};

}  // namespace lm::infer
