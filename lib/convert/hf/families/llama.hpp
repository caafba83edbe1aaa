// SPDX-License-Identifier: Apache-2.0
// LlamaForCausalLM, from which many other classes differ in a few members.
#pragma once

#include "convert/hf/families/act2fn.hpp"

namespace lm::convert::hf {

inline constexpr std::array llama_before{
    HfClass::Row{"embed_tokens", "embedding.word"},
};
// The rows of all classes with these names. A row is skipped if the model does not have its tensor.
inline constexpr std::array llama_layer{
    HfClass::Row{"self_attn.q_proj", "attention.query"},
    HfClass::Row{"self_attn.k_proj", "attention.key"},
    HfClass::Row{"self_attn.v_proj", "attention.value"},
    HfClass::Row{"self_attn.q_norm", "attention.query_norm"},
    HfClass::Row{"self_attn.k_norm", "attention.key_norm"},
    HfClass::Row{"self_attn.o_proj", "attention.output"},
    HfClass::Row{"mlp.gate_proj", "mlp.gate"},
    HfClass::Row{"mlp.up_proj", "mlp.up"},
    HfClass::Row{"mlp.down_proj", "mlp.down"},
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
};
inline constexpr std::array llama_after{
    HfClass::Row{"norm", "final_norm"},
};

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
// For classes that compute the head size from the hidden size.
inline constexpr std::array integers_without_head_dim = [] {
    std::array<HfClass::Integer, llama_integers.size() - 1> integers{};
    std::ranges::copy_if(llama_integers, integers.begin(), [](const HfClass::Integer& integer) {
        return integer.member != &spec::ModelConfig::head_dim;
    });
    return integers;
}();
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
    .head = "lm_head",
    .before_layers = llama_before,
    .in_layers = llama_layer,
    .after_layers = llama_after,
    .integers = llama_integers,
    .numbers = llama_numbers,
    .flags = llama_flags,
    .activation_key = "hidden_act",
    .activations = gated_activations,
    .absent_activation = "silu",
    .newer_head_dim = true,
    .normalization = spec::Normalization::rms_norm,
};

// Returns Llama without biases, as most of the other classes are.
constexpr HfClass llama_like(std::string_view name, std::string_view model_type,
                             std::string_view class_name) {
    HfClass c = llama;
    c.name = name;
    c.model_type = model_type;
    c.class_name = class_name;
    c.flags = {};
    c.linear_bias = false;
    c.newer_head_dim = false;
    return c;
}

}  // namespace lm::convert::hf
