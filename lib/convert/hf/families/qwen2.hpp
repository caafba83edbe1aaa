// SPDX-License-Identifier: Apache-2.0
// Qwen2ForCausalLM: Llama with biases of query, key and value.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array qwen2_constants{
    HfClass::Constant{"use_sliding_window", "false", "false", "windows in some of the layers"},
};

inline constexpr HfClass qwen2 = [] {
    HfClass c = llama_like("hf-qwen2", "qwen2", "Qwen2ForCausalLM");
    c.constants = qwen2_constants;
    c.qkv_bias = true;
    return c;
}();

}  // namespace lm::convert::hf
