// SPDX-License-Identifier: Apache-2.0
// Glm4ForCausalLM: norms of inputs and outputs, adjacent rotary pairs in a part of each head, and
// biases of query, key and value.
#pragma once

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array glm4_layer{
    HfClass::Row{"self_attn.q_proj", "attention.query"},
    HfClass::Row{"self_attn.k_proj", "attention.key"},
    HfClass::Row{"self_attn.v_proj", "attention.value"},
    HfClass::Row{"self_attn.o_proj", "attention.output"},
    HfClass::Row{"mlp.gate_up_proj", "mlp.gate_up"},
    HfClass::Row{"mlp.down_proj", "mlp.down"},
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
    HfClass::Row{"post_self_attn_layernorm", "attention.output_norm"},
    HfClass::Row{"post_mlp_layernorm", "mlp.output_norm"},
};

inline constexpr std::array glm4_integers = [] {
    auto integers = llama_integers;
    for (HfClass::Integer& integer : integers) {
        if (integer.member == &spec::ModelConfig::head_dim) integer.absent = 128;
        if (integer.member == &spec::ModelConfig::max_positions) integer.absent = 131072;
    }
    return integers;
}();
inline constexpr std::array glm4_numbers{
    HfClass::Number{"rms_norm_eps", &spec::ModelConfig::norm_eps, 1.5625e-7},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"partial_rotary_factor", &spec::ModelConfig::rotary_percent, 0.5},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array glm4_flags{
    HfClass::Flag{"attention_bias", &spec::ModelConfig::qkv_bias, true},
};

inline constexpr HfClass glm4 = [] {
    HfClass c = llama_like("hf-glm4", "glm4", "Glm4ForCausalLM");
    c.in_layers = glm4_layer;
    c.integers = glm4_integers;
    c.numbers = glm4_numbers;
    c.flags = glm4_flags;
    c.any_head_dim = true;
    c.rotary_interleaved = true;
    c.norms = spec::NormPlacement::peri;
    // The default of the class is an id of GLM-4's own vocabulary.
    c.write_more = [](const spec::ModelConfig&, io::Json& json) { json["pad_token_id"] = nullptr; };
    return c;
}();

}  // namespace lm::convert::hf
