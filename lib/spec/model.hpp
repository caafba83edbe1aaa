// SPDX-License-Identifier: Apache-2.0
// The hyper-parameters of a model.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/named.hpp"
#include "base/types.hpp"
#include "spec/activation.hpp"
#include "spec/layer_pattern.hpp"
#include "spec/rotary.hpp"

namespace lm::spec {

enum class PositionEmbedding { absolute, alibi, rope, none };
inline constexpr std::array position_embeddings{
    Named{PositionEmbedding::absolute, "absolute"}, Named{PositionEmbedding::alibi, "alibi"},
    Named{PositionEmbedding::rope, "rope"}, Named{PositionEmbedding::none, "none"}};

std::string_view name_of(PositionEmbedding value);

// Returns whether the model has a learned table of positions, which is added to the embedding.
constexpr bool has_table(PositionEmbedding position) {
    switch (position) {
        case PositionEmbedding::absolute:
            return true;
        case PositionEmbedding::alibi:
        case PositionEmbedding::rope:
        case PositionEmbedding::none:
            return false;
    }
    __builtin_unreachable();
}

// Returns whether attention rotates queries and keys.
constexpr bool is_rotary(PositionEmbedding position) {
    switch (position) {
        case PositionEmbedding::rope:
            return true;
        case PositionEmbedding::absolute:
        case PositionEmbedding::alibi:
        case PositionEmbedding::none:
            return false;
    }
    __builtin_unreachable();
}

// LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019).
enum class Normalization { layer_norm, rms_norm };
inline constexpr std::array normalizations{Named{Normalization::layer_norm, "LayerNorm"},
                                           Named{Normalization::rms_norm, "RMSNorm"}};

std::string_view name_of(Normalization value);

// Returns whether the norm subtracts the mean. Only such a norm has a bias.
constexpr bool is_centred(Normalization normalization) {
    switch (normalization) {
        case Normalization::layer_norm:
            return true;
        case Normalization::rms_norm:
            return false;
    }
    __builtin_unreachable();
}

// The places of a layer's norms: before attention and MLP (pre, GPT-2); after them, on the branch
// that is added to the residual stream (reordered, OLMo 2); or both (peri, Kim et al. 2025,
// "Peri-LN", and Gemma 2).
enum class NormPlacement { pre, reordered, peri };
inline constexpr std::array norm_placements{Named{NormPlacement::pre, "pre"},
                                            Named{NormPlacement::reordered, "reordered"},
                                            Named{NormPlacement::peri, "peri"}};

std::string_view name_of(NormPlacement value);

// Return whether attention and MLP read a normalized stream, and whether their outputs are
// normalized.
constexpr bool norms_input(NormPlacement placement) {
    return placement != NormPlacement::reordered;
}
constexpr bool norms_output(NormPlacement placement) {
    return placement != NormPlacement::pre;
}

// The properties that may differ from layer to layer. ModelConfig::layer() derives them.
struct LayerConfig {
    i64 n_groups = 0;  // G, key-value groups
    PositionEmbedding position = PositionEmbedding::absolute;
    RotaryFrequencies rotary;
    i64 window = 0;  // keys that a query sees, its own included; 0: no limit
    Activation activation = Activation::gelu_tanh;
    bool parallel_residual = false;  // ModelConfig::parallel_residual
    bool shared_norm = false;        // ModelConfig::shared_norm
    NormPlacement norms = NormPlacement::pre;
    friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

struct ModelConfig {
    i64 n_layers = 0;
    i64 hidden = 0;         // C
    i64 ffn_hidden = 0;     // F; resolve() sets it to 4*hidden when 0
    i64 n_heads = 0;        // H
    i64 n_groups = 0;       // G, key-value groups; resolve() sets it to n_heads when 0
    i64 head_dim = 0;       // D (--kv-channels); resolve() sets it to hidden/n_heads when 0
    i64 seq_length = 0;     // T
    i64 max_positions = 0;  // rows of the position table; resolve() sets it to seq_length when 0
    i64 vocab_size = 0;     // without padding
    PositionEmbedding position = PositionEmbedding::absolute;
    Normalization normalization = Normalization::layer_norm;
    NormPlacement norms = NormPlacement::pre;  // --norm-placement
    Activation activation = Activation::gelu_tanh;
    double norm_eps = 1e-5;
    double rotary_base = 10000.0;
    double rotary_percent = 1.0;      // fraction of each head that rotary positions rotate
    bool rotary_interleaved = false;  // rotate adjacent pairs instead of halves
    RotaryScaling rope_scaling;
    // --rope-local-base-freq: base of the layers with a window, whose frequencies are not scaled;
    // 0: all layers have the same frequencies
    double rotary_local_base = 0;
    double query_beta = 0;          // --llama-4-scaling-beta, RotaryFrequencies::query_beta
    i64 window = 0;                 // keys that a query sees, its own included; 0: no limit
    LayerPattern full_layers;       // --window-attn-skip-freq: layers without the window
    LayerPattern unrotated_layers;  // --no-rope-freq: layers without rotary positions
    bool embedding_norm = false;    // --embed-layernorm
    bool norm_bias = true;          // --no-norm-bias clears it; RMSNorm has none
    bool norm_1p = false;           // --apply-layernorm-1p: norms multiply by 1 + weight
    bool qk_norm = false;           // --qk-layernorm: normalizes each head of query and key
    // --qk-layernorm-all-heads: qk_norm normalizes all heads of the query together, and all of the
    // key, as in OLMo 2
    bool joint_qk_norm = false;
    // --use-parallel-residual: x + attention(norm1(x)) + mlp(norm2(x)), as in GPT-NeoX
    bool parallel_residual = false;
    bool shared_norm = false;    // --parallel-shared-norm: norm1 is norm2, as in Cohere's models
    double embedding_scale = 1;  // --embedding-multiplier: factor of the embedding's output
    double attention_scale = 0;  // --attention-multiplier: factor of the scores; 0: 1/sqrt(D)
    double residual_scale =
        1;                     // --residual-multiplier: factor of each attention's and MLP's output
    double logit_scale = 1;    // --logit-scale: factor of the logits
    bool untied_head = false;  // --untie-embeddings-and-output-weights
    bool linear_bias = true;   // --disable-bias-linear clears it
    bool qkv_bias = false;     // --add-qkv-bias: biases of query, key and value
    double attention_dropout = 0.1;
    double hidden_dropout = 0.1;
    double init_std = 0.02;

    // Fills the derived values, then checks all values. Throws Error(usage) naming the flag whose
    // value is invalid.
    void resolve();
    // Makes those checks of resolve() that need no sizes.
    void check_values() const;

    // Returns the properties of layer `index` of the whole model.
    LayerConfig layer(i64 index) const;

    i64 qkv_rows(const LayerConfig& layer) const {
        return (n_heads + 2 * layer.n_groups) * head_dim;
    }
    i64 attention_width() const { return n_heads * head_dim; }
    // Returns the factor of the scores of attention, by default 1 / sqrt(D) (Vaswani et al. 2017,
    // "Attention is all you need", section 3.2.1).
    double score_scale() const;
    // Returns the number of elements of a head that rotary positions rotate.
    i64 rotary_dim() const;
    bool has_norm_bias() const { return is_centred(normalization) && norm_bias; }
    bool has_qkv_bias() const { return linear_bias || qkv_bias; }
};

// Return the different layers, windows and rotary frequencies of a model, in the order of their
// first layers. The memory of a run has the constants and inputs of attention for each of these
// windows and frequencies.
std::vector<LayerConfig> layer_kinds(const ModelConfig& config);
std::vector<i64> windows(const ModelConfig& config);
std::vector<RotaryFrequencies> rotary_frequencies(const ModelConfig& config);
// Returns the number of layers that are equal to `kind`.
i64 count_layers(const ModelConfig& config, const LayerConfig& kind);
// Returns the index of `value` in one of these lists; the length of the list without the value.
template <typename Value>
i64 index_of(const std::vector<Value>& values, const Value& value) {
    return std::ranges::find(values, value) - values.begin();
}

}  // namespace lm::spec
