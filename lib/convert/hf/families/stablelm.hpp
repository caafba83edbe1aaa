// SPDX-License-Identifier: Apache-2.0
// StableLmForCausalLM: Llama with LayerNorm.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array stablelm_numbers{
    HfClass::Number{"layer_norm_eps", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"partial_rotary_factor", &spec::ModelConfig::rotary_percent, 0.25},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"hidden_dropout", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array stablelm_flags{
    HfClass::Flag{"use_qkv_bias", &spec::ModelConfig::qkv_bias, false},
};
inline constexpr std::array stablelm_constants{
    HfClass::Constant{"use_parallel_residual", "false", "false",
                      "a parallel residual with one norm for attention and MLP"},
    HfClass::Constant{"qk_layernorm", "false", "false", "a norm for each head"},
};

inline constexpr HfClass stablelm = [] {
    HfClass c = llama_like("hf-stablelm", "stablelm", "StableLmForCausalLM");
    c.numbers = stablelm_numbers;
    c.flags = stablelm_flags;
    c.constants = stablelm_constants;
    c.normalization = spec::Normalization::layer_norm;
    return c;
}();

}  // namespace lm::convert::hf
