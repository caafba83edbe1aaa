// SPDX-License-Identifier: Apache-2.0
// BloomForCausalLM.
#pragma once

#include "convert/hf/families/act2fn.hpp"

namespace lm::convert::hf {

inline constexpr std::array bloom_before{
    HfClass::Row{"word_embeddings", "embedding.word"},
    HfClass::Row{"word_embeddings_layernorm", "embedding.norm"},
};
inline constexpr std::array bloom_layer{
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"self_attention.query_key_value", "attention.qkv"},
    HfClass::Row{"self_attention.dense", "attention.output"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
    HfClass::Row{"mlp.dense_h_to_4h", "mlp.up"},
    HfClass::Row{"mlp.dense_4h_to_h", "mlp.down"},
};
inline constexpr std::array bloom_after{
    HfClass::Row{"ln_f", "final_norm"},
};

inline constexpr std::array bloom_integers{
    HfClass::Integer{"vocab_size", &spec::ModelConfig::vocab_size},
    HfClass::Integer{"hidden_size", &spec::ModelConfig::hidden, -1, "n_embed"},
    HfClass::Integer{"n_layer", &spec::ModelConfig::n_layers, -1, "num_hidden_layers"},
    HfClass::Integer{"n_head", &spec::ModelConfig::n_heads, -1, "num_attention_heads"},
    HfClass::Integer{"seq_length", &spec::ModelConfig::max_positions, 2048},
};
inline constexpr std::array bloom_numbers{
    HfClass::Number{"hidden_dropout", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"layer_norm_epsilon", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array bloom_constants{
    HfClass::Constant{"apply_residual_connection_post_layernorm", "false", "false",
                      "a residual that starts after the norm"},
    HfClass::Constant{"slow_but_exact", "false", "false", ""},
};

inline constexpr HfClass bloom{
    .name = "hf-bloom",
    .model_type = "bloom",
    .class_name = "BloomForCausalLM",
    .prefix = "transformer.",
    .layer_prefix = "h.",
    .head = "lm_head",
    .before_layers = bloom_before,
    .in_layers = bloom_layer,
    .after_layers = bloom_after,
    .integers = bloom_integers,
    .numbers = bloom_numbers,
    .constants = bloom_constants,
    .activations = std::span(plain_activations).first<1>(),
    .absent_tied = true,
    .position = spec::PositionEmbedding::alibi,
    .embedding_norm = true,
};

}  // namespace lm::convert::hf
