// SPDX-License-Identifier: Apache-2.0
// MistralForCausalLM: Llama with a window.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr HfClass mistral = [] {
    HfClass c = llama_like("hf-mistral", "mistral", "MistralForCausalLM");
    c.absent_window = 4096;
    c.any_head_dim = true;
    return c;
}();

}  // namespace lm::convert::hf
