// SPDX-License-Identifier: Apache-2.0
// LlamaForCausalLM, from which many other classes differ in a few members.
#pragma once

#include "convert/hf/families/act2fn.hpp"

namespace lm::convert::hf {

inline constexpr std::array llama_before{
    HfClass::Row{"embed_tokens.weight", "embedding.word.weight"},
};
// The rows of all classes with these names. A row is skipped if the model does not have its tensor.
inline constexpr std::array llama_layer{
    HfClass::Row{"self_attn.q_proj.weight", "attention.query.weight"},
    HfClass::Row{"self_attn.q_proj.bias", "attention.query.bias"},
    HfClass::Row{"self_attn.k_proj.weight", "attention.key.weight"},
    HfClass::Row{"self_attn.k_proj.bias", "attention.key.bias"},
    HfClass::Row{"self_attn.v_proj.weight", "attention.value.weight"},
    HfClass::Row{"self_attn.v_proj.bias", "attention.value.bias"},
    HfClass::Row{"self_attn.q_norm.weight", "attention.query_norm.weight"},
    HfClass::Row{"self_attn.k_norm.weight", "attention.key_norm.weight"},
    HfClass::Row{"self_attn.o_proj.weight", "attention.output.weight"},
    HfClass::Row{"self_attn.o_proj.bias", "attention.output.bias"},
    HfClass::Row{"mlp.gate_proj.weight", "mlp.gate.weight"},
    HfClass::Row{"mlp.gate_proj.bias", "mlp.gate.bias"},
    HfClass::Row{"mlp.up_proj.weight", "mlp.up.weight"},
    HfClass::Row{"mlp.up_proj.bias", "mlp.up.bias"},
    HfClass::Row{"mlp.down_proj.weight", "mlp.down.weight"},
    HfClass::Row{"mlp.down_proj.bias", "mlp.down.bias"},
    HfClass::Row{"input_layernorm.weight", "attention.norm.weight"},
    HfClass::Row{"input_layernorm.bias", "attention.norm.bias"},
    HfClass::Row{"post_attention_layernorm.weight", "mlp.norm.weight"},
    HfClass::Row{"post_attention_layernorm.bias", "mlp.norm.bias"},
};
inline constexpr std::array llama_after{
    HfClass::Row{"norm.weight", "final_norm.weight"},
    HfClass::Row{"norm.bias", "final_norm.bias"},
};
inline constexpr std::array<std::string_view, 1> llama_buffers{".rotary_emb.inv_freq"};

inline constexpr std::array llama_integers{
    HfClass::Integer{"vocab_size", &spec::ModelConfig::vocab_size},
    HfClass::Integer{"hidden_size", &spec::ModelConfig::hidden},
    HfClass::Integer{"intermediate_size", &spec::ModelConfig::ffn_hidden},
    HfClass::Integer{"num_hidden_layers", &spec::ModelConfig::n_layers},
    HfClass::Integer{"num_attention_heads", &spec::ModelConfig::n_heads},
    HfClass::Integer{"num_key_value_heads", &spec::ModelConfig::n_groups, 0},
    HfClass::Integer{"head_dim", &spec::ModelConfig::head_dim, 0},
    HfClass::Integer{"max_position_embeddings", &spec::ModelConfig::max_positions, 2048},
};
inline constexpr std::array llama_numbers{
    HfClass::Number{"rms_norm_eps", &spec::ModelConfig::norm_eps, 1e-6},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array llama_flags{
    HfClass::Flag{"attention_bias", &spec::ModelConfig::linear_bias, false},
    HfClass::Flag{"mlp_bias", &spec::ModelConfig::linear_bias, false},
};

inline constexpr HfClass llama{
    .name = "hf-llama",
    .model_type = "llama",
    .class_name = "LlamaForCausalLM",
    .prefix = "model.",
    .layer_prefix = "layers.",
    .head = "lm_head.weight",
    .before_layers = llama_before,
    .in_layers = llama_layer,
    .after_layers = llama_after,
    .buffers = llama_buffers,
    .integers = llama_integers,
    .numbers = llama_numbers,
    .flags = llama_flags,
    .activation_key = "hidden_act",
    .activations = gated_activations,
    .absent_activation = "silu",
    .llama3_scaling = true,
    .normalization = spec::Normalization::rms_norm,
};

// Returns Llama without biases and scaled frequencies, as most of the other classes are.
constexpr HfClass llama_like(std::string_view name, std::string_view model_type,
                             std::string_view class_name) {
    HfClass c = llama;
    c.name = name;
    c.model_type = model_type;
    c.class_name = class_name;
    c.flags = {};
    c.linear_bias = false;
    c.llama3_scaling = false;
    return c;
}

}  // namespace lm::convert::hf
