// SPDX-License-Identifier: Apache-2.0
// GPTNeoXForCausalLM.
#pragma once

#include "convert/hf/families/act2fn.hpp"

namespace lm::convert::hf {

inline constexpr std::array gpt_neox_before{
    HfClass::Row{"embed_in", "embedding.word"},
};
inline constexpr std::array gpt_neox_layer{
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
    HfClass::Row{"attention.query_key_value", "attention.qkv"},
    HfClass::Row{"attention.dense", "attention.output"},
    HfClass::Row{"mlp.dense_h_to_4h", "mlp.up"},
    HfClass::Row{"mlp.dense_4h_to_h", "mlp.down"},
};
inline constexpr std::array gpt_neox_after{
    HfClass::Row{"final_layer_norm", "final_norm"},
};

inline constexpr std::array gpt_neox_integers{
    HfClass::Integer{"vocab_size", &spec::ModelConfig::vocab_size},
    HfClass::Integer{"hidden_size", &spec::ModelConfig::hidden},
    HfClass::Integer{"intermediate_size", &spec::ModelConfig::ffn_hidden},
    HfClass::Integer{"num_hidden_layers", &spec::ModelConfig::n_layers},
    HfClass::Integer{"num_attention_heads", &spec::ModelConfig::n_heads},
    HfClass::Integer{"max_position_embeddings", &spec::ModelConfig::max_positions, 2048},
};
inline constexpr std::array gpt_neox_numbers{
    HfClass::Number{"layer_norm_eps", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rotary_emb_base", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"rotary_pct", &spec::ModelConfig::rotary_percent, 0.25},
    HfClass::Number{"hidden_dropout", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array gpt_neox_flags{
    HfClass::Flag{"use_parallel_residual", &spec::ModelConfig::parallel_residual, true},
};
inline constexpr std::array gpt_neox_constants{
    HfClass::Constant{"attention_bias", "true", "true",
                      "an attention without biases beside an MLP with biases"},
};

inline constexpr HfClass gpt_neox{
    .name = "hf-gpt-neox",
    .model_type = "gpt_neox",
    .class_name = "GPTNeoXForCausalLM",
    .prefix = "gpt_neox.",
    .layer_prefix = "layers.",
    .head = "embed_out",
    .before_layers = gpt_neox_before,
    .in_layers = gpt_neox_layer,
    .after_layers = gpt_neox_after,
    .integers = gpt_neox_integers,
    .numbers = gpt_neox_numbers,
    .flags = gpt_neox_flags,
    .constants = gpt_neox_constants,
    .activation_key = "hidden_act",
    .activations = plain_activations,
    .absent_activation = "gelu",
};

}  // namespace lm::convert::hf
