// SPDX-License-Identifier: Apache-2.0
// Qwen3ForCausalLM: Llama with a norm of each head of query and key.
#pragma once

#include "convert/hf/families/qwen2.hpp"

namespace lm::convert::hf {

inline constexpr std::array qwen3_integers = [] {
    auto integers = llama_integers;
    for (HfClass::Integer& integer : integers) {
        if (integer.member == &spec::ModelConfig::head_dim) integer.absent = 128;
    }
    return integers;
}();
inline constexpr std::array qwen3_constants{
    HfClass::Constant{"attention_bias", "false", "false",
                      "an attention with biases beside an MLP without biases"},
};

inline constexpr HfClass qwen3 = [] {
    HfClass c = llama_like("hf-qwen3", "qwen3", "Qwen3ForCausalLM");
    c.integers = qwen3_integers;
    c.constants = qwen3_constants;
    add_qwen_windows(c);
    c.any_head_dim = true;
    c.qk_norm = true;
    return c;
}();

}  // namespace lm::convert::hf
