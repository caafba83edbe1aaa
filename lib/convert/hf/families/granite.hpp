// SPDX-License-Identifier: Apache-2.0
// GraniteForCausalLM: Llama with four multipliers.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array granite_numbers = [] {
    constexpr std::array more{
        HfClass::Number{"embedding_multiplier", &spec::ModelConfig::embedding_scale, 1},
        HfClass::Number{"attention_multiplier", &spec::ModelConfig::attention_scale, 1},
        HfClass::Number{"residual_multiplier", &spec::ModelConfig::residual_scale, 1},
        HfClass::Number{"logits_scaling", &spec::ModelConfig::logit_scale, 1,
                        HfClass::Form::inverse},
    };
    std::array<HfClass::Number, llama_numbers.size() + more.size()> numbers{};
    std::ranges::copy(more, std::ranges::copy(llama_numbers, numbers.begin()).out);
    return numbers;
}();

inline constexpr HfClass granite = [] {
    HfClass c = llama_like("hf-granite", "granite", "GraniteForCausalLM");
    c.integers = integers_without_head_dim;
    c.numbers = granite_numbers;
    c.flags = llama_flags;
    return c;
}();

}  // namespace lm::convert::hf
