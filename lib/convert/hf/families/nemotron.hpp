// SPDX-License-Identifier: Apache-2.0
// NemotronForCausalLM: Llama without gate, and with LayerNorm that multiplies by 1 + weight.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array nemotron_numbers{
    HfClass::Number{"norm_eps", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"partial_rotary_factor", &spec::ModelConfig::rotary_percent, 0.5},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.0134},
};

inline constexpr HfClass nemotron = [] {
    HfClass c = llama_like("hf-nemotron", "nemotron", "NemotronForCausalLM");
    c.numbers = nemotron_numbers;
    c.flags = llama_flags;
    c.activations = plain_activations;
    c.absent_activation = "relu2";
    c.any_head_dim = true;
    c.normalization = spec::Normalization::layer_norm;
    c.norm_1p = true;
    return c;
}();

}  // namespace lm::convert::hf
