// SPDX-License-Identifier: Apache-2.0
// Starcoder2ForCausalLM: Llama with LayerNorm and without gate.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array starcoder2_layer{
    HfClass::Row{"self_attn.q_proj.weight", "attention.query.weight"},
    HfClass::Row{"self_attn.q_proj.bias", "attention.query.bias"},
    HfClass::Row{"self_attn.k_proj.weight", "attention.key.weight"},
    HfClass::Row{"self_attn.k_proj.bias", "attention.key.bias"},
    HfClass::Row{"self_attn.v_proj.weight", "attention.value.weight"},
    HfClass::Row{"self_attn.v_proj.bias", "attention.value.bias"},
    HfClass::Row{"self_attn.o_proj.weight", "attention.output.weight"},
    HfClass::Row{"self_attn.o_proj.bias", "attention.output.bias"},
    HfClass::Row{"mlp.c_fc.weight", "mlp.up.weight"},
    HfClass::Row{"mlp.c_fc.bias", "mlp.up.bias"},
    HfClass::Row{"mlp.c_proj.weight", "mlp.down.weight"},
    HfClass::Row{"mlp.c_proj.bias", "mlp.down.bias"},
    HfClass::Row{"input_layernorm.weight", "attention.norm.weight"},
    HfClass::Row{"input_layernorm.bias", "attention.norm.bias"},
    HfClass::Row{"post_attention_layernorm.weight", "mlp.norm.weight"},
    HfClass::Row{"post_attention_layernorm.bias", "mlp.norm.bias"},
};

inline constexpr std::array starcoder2_numbers{
    HfClass::Number{"norm_epsilon", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"residual_dropout", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"embedding_dropout", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.018042},
};
inline constexpr std::array starcoder2_flags{
    HfClass::Flag{"use_bias", &spec::ModelConfig::linear_bias, true},
};
inline constexpr std::array starcoder2_constants{
    HfClass::Constant{"sliding_window", "null", "null"},
};

inline constexpr HfClass starcoder2 = [] {
    HfClass c = llama_like("hf-starcoder2", "starcoder2", "Starcoder2ForCausalLM");
    c.in_layers = starcoder2_layer;
    c.numbers = starcoder2_numbers;
    c.flags = starcoder2_flags;
    c.constants = starcoder2_constants;
    c.activations = plain_activations;
    c.absent_activation = "gelu_pytorch_tanh";
    c.absent_tied = true;
    c.normalization = spec::Normalization::layer_norm;
    return c;
}();

}  // namespace lm::convert::hf
