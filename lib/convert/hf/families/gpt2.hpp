// SPDX-License-Identifier: Apache-2.0
// GPT2LMHeadModel.
#pragma once

#include "convert/hf/families/act2fn.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array gpt2_before{
    HfClass::Row{"wte", "embedding.word"},
    HfClass::Row{"wpe", "embedding.position"},
};
inline constexpr std::array gpt2_layer{
    HfClass::Row{"ln_1", "attention.norm"},
    HfClass::Row{"attn.c_attn", "attention.qkv"},
    HfClass::Row{"attn.c_proj", "attention.output"},
    HfClass::Row{"ln_2", "mlp.norm"},
    HfClass::Row{"mlp.c_fc", "mlp.up"},
    HfClass::Row{"mlp.c_proj", "mlp.down"},
};
inline constexpr std::array gpt2_after{
    HfClass::Row{"ln_f", "final_norm"},
};

inline constexpr std::array gpt2_integers{
    HfClass::Integer{"vocab_size", &spec::ModelConfig::vocab_size},
    HfClass::Integer{"n_positions", &spec::ModelConfig::max_positions, -1,
                     "max_position_embeddings"},
    HfClass::Integer{"n_embd", &spec::ModelConfig::hidden, -1, "hidden_size"},
    HfClass::Integer{"n_layer", &spec::ModelConfig::n_layers, -1, "num_hidden_layers"},
    HfClass::Integer{"n_head", &spec::ModelConfig::n_heads, -1, "num_attention_heads"},
    HfClass::Integer{"n_inner", &spec::ModelConfig::ffn_hidden, 0},
};
inline constexpr std::array gpt2_numbers{
    HfClass::Number{"resid_pdrop", &spec::ModelConfig::hidden_dropout, 0.1},
    HfClass::Number{"embd_pdrop", &spec::ModelConfig::hidden_dropout, 0.1},
    HfClass::Number{"attn_pdrop", &spec::ModelConfig::attention_dropout, 0.1},
    HfClass::Number{"layer_norm_epsilon", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::string_view unscaled_scores =
    "attention scores that are not divided by the square root of the head size";
inline constexpr std::string_view cross_attention = "attention to an encoder";
inline constexpr std::array gpt2_constants{
    HfClass::Constant{"scale_attn_weights", "true", "true", unscaled_scores},
    HfClass::Constant{"scale_attn_by_inverse_layer_idx", "false", "false",
                      "attention scores divided by the number of the layer"},
    HfClass::Constant{"reorder_and_upcast_attn", "false", "false", ""},
    HfClass::Constant{"add_cross_attention", "false", "false", cross_attention},
};

// transformers writes null for an MLP of 4 times the hidden size.
inline void write_n_inner(const spec::ModelConfig& config, io::Json& json) {
    if (config.ffn_hidden == 4 * config.hidden) json["n_inner"] = nullptr;
}

inline constexpr HfClass gpt2{
    .name = "hf-gpt2",
    .model_type = "gpt2",
    .class_name = "GPT2LMHeadModel",
    .prefix = "transformer.",
    .layer_prefix = "h.",
    .head = "lm_head",
    .before_layers = gpt2_before,
    .in_layers = gpt2_layer,
    .after_layers = gpt2_after,
    .qkv = QkvOrder::whole,
    .conv1d = true,
    .integers = gpt2_integers,
    .numbers = gpt2_numbers,
    .constants = gpt2_constants,
    .activation_key = "activation_function",
    .activations = plain_activations,
    .absent_activation = "gelu_new",
    .absent_tied = true,
    .write_more =
        [](const spec::ModelConfig& config, io::Json& json) {
            json["n_ctx"] = config.max_positions;
            write_n_inner(config, json);
        },
    .position = spec::PositionEmbedding::absolute,
};

}  // namespace lm::convert::hf
