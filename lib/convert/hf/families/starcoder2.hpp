// SPDX-License-Identifier: Apache-2.0
// Starcoder2ForCausalLM: Llama with LayerNorm, an optional window and without gate.
#pragma once

#include <limits>

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array starcoder2_layer{
    HfClass::Row{"self_attn.q_proj", "attention.query"},
    HfClass::Row{"self_attn.k_proj", "attention.key"},
    HfClass::Row{"self_attn.v_proj", "attention.value"},
    HfClass::Row{"self_attn.o_proj", "attention.output"},
    HfClass::Row{"mlp.c_fc", "mlp.up"},
    HfClass::Row{"mlp.c_proj", "mlp.down"},
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
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
inline constexpr HfClass starcoder2 = [] {
    HfClass c = llama_like("hf-starcoder2", "starcoder2", "Starcoder2ForCausalLM");
    c.in_layers = starcoder2_layer;
    c.numbers = starcoder2_numbers;
    c.flags = starcoder2_flags;
    c.absent_window = std::numeric_limits<i64>::max();
    c.activations = plain_activations;
    c.absent_activation = "gelu_pytorch_tanh";
    c.absent_tied = true;
    c.normalization = spec::Normalization::layer_norm;
    return c;
}();

}  // namespace lm::convert::hf
