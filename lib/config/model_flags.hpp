// SPDX-License-Identifier: Apache-2.0
// The flags of a model, with Megatron's names and defaults. lm-train and lm-estimate share these
// flags.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "config/field.hpp"
#include "spec/model.hpp"

namespace lm::config {

struct ModelFlags {
    std::string preset;  // --model
    std::optional<i64> n_layers;
    std::optional<i64> hidden;
    std::optional<i64> ffn_hidden;
    std::optional<i64> n_heads;
    bool group_query_attention = false;
    std::optional<i64> n_groups;
    std::optional<i64> kv_heads;  // --num-key-value-heads
    std::optional<i64> kv_channels;
    std::optional<i64> seq_length;
    std::optional<i64> max_positions;
    cli::WithDefault<std::string> position{"absolute"};
    bool rotary = false;       // --use-rotary-position-embeddings
    bool no_position = false;  // --no-position-embedding
    cli::WithDefault<double> rotary_base = 10000.0;
    cli::WithDefault<double> rotary_percent = 1.0;
    bool rotary_interleaved = false;
    bool rope_scaling = false;  // --use-rope-scaling
    cli::WithDefault<double> rope_scaling_factor = 8.0;
    cli::WithDefault<double> llama3_low = 1.0;     // --rope-scaling-low-freq-factor
    cli::WithDefault<double> llama3_high = 4.0;    // --rope-scaling-high-freq-factor
    cli::WithDefault<i64> llama3_original = 8192;  // --rope-scaling-original-max-...
    cli::WithDefault<double> interpolation = 1.0;  // --rotary-seq-len-interpolation-factor
    cli::WithDefault<double> yarn_factor = 1.0;    // --rotary-scaling-factor
    cli::WithDefault<i64> yarn_original = 4096;    // --yarn-original-max-position-embeddings
    cli::WithDefault<double> yarn_beta_fast = 32.0;
    cli::WithDefault<double> yarn_beta_slow = 1.0;
    cli::WithDefault<double> yarn_mscale = 1.0;          // --mscale
    cli::WithDefault<double> yarn_mscale_all_dim = 0.0;  // --mscale-all-dim
    bool yarn_truncate = true;                           // --no-yarn-correction-range-...
    cli::WithDefault<double> rope_attention_factor = 0.0;
    cli::WithDefault<double> rotary_local_base = 0.0;  // --rope-local-base-freq
    cli::WithDefault<double> query_beta = 0.0;         // --llama-4-scaling-beta
    cli::WithDefault<std::string> window_size;  // "LEFT,RIGHT", as in Megatron; empty: no window
    std::string full_layers;                    // --window-attn-skip-freq; empty: none
    std::string unrotated_layers;               // --no-rope-freq; empty: none
    cli::WithDefault<std::string> normalization{"LayerNorm"};
    cli::WithDefault<std::string> norms{"pre"};
    cli::WithDefault<double> norm_eps = 1e-5;
    bool embedding_norm = false;
    bool norm_bias = true;
    bool norm_1p = false;
    bool qk_norm = false;
    bool joint_qk_norm = false;
    bool parallel_residual = false;
    bool shared_norm = false;
    cli::WithDefault<double> embedding_scale = 1.0;
    cli::WithDefault<double> attention_scale = 0.0;
    cli::WithDefault<double> residual_scale = 1.0;
    cli::WithDefault<double> logit_scale = 1.0;
    bool swiglu = false;
    std::string glu_activation;
    bool openai_gelu = false;
    bool bias_gelu_fusion = true;
    bool squared_relu = false;
    bool untied_head = false;
    bool linear_bias = true;
    bool qkv_bias = false;
    cli::WithDefault<double> attention_dropout = 0.1;
    cli::WithDefault<double> hidden_dropout = 0.1;
    cli::WithDefault<double> init_std = 0.02;
    std::optional<i64> vocab_size;
    i64 vocab_divisible_by = 128;
    std::optional<i64> pad_vocab_to;
    bool softmax_over_padding = false;
    i64 seed = 1234;
    std::optional<spec::ModelConfig> saved;  // the model of a checkpoint; flags override it
};

// Declares the flags under the heading "Model". `options` and `flags` must outlive parsing and must
// not move.
void add_model_options(cli::Options& options, ModelFlags& flags);

// Returns the resolved and checked model: the saved model or the preset, with the values of the
// given flags. The vocabulary size is the first of these that is known: --vocab-size, the size in
// the saved model, `data_vocab` (from the tokenizer or the data's metadata file), the size in the
// preset, GPT-2's size. With --softmax-over-padding, the vocabulary size includes the padding for
// `tensor_ranks`. Prints notes on the values of the preset, on flags that override them, and on
// flags without effect. Throws Error(usage) naming an invalid flag.
spec::ModelConfig resolve_model(const ModelFlags& flags,
                                std::optional<i64> data_vocab = std::nullopt, i64 tensor_ranks = 1);

// Returns --seq-length, or if it is not given, the sequence length of the saved model or the
// preset. Also works with flags that resolve_model() rejects.
std::optional<i64> seq_length_of(const ModelFlags& flags);

}  // namespace lm::config
