// SPDX-License-Identifier: Apache-2.0
// Olmo2ForCausalLM: Llama with norms of the outputs of attention and MLP instead of their inputs,
// and one norm over all heads of the query and one over those of the key.
#pragma once

#include "convert/hf/families/llama.hpp"

namespace lm::convert::hf {

inline constexpr std::array reordered_layer = [] {
    auto rows = llama_layer;
    for (HfClass::Row& row : rows) {
        if (row.ours == "attention.norm")
            row = {"post_attention_layernorm", "attention.output_norm"};
        if (row.ours == "mlp.norm") row = {"post_feedforward_layernorm", "mlp.output_norm"};
    }
    return rows;
}();

inline constexpr std::array olmo2_numbers = [] {
    auto numbers = llama_numbers;
    for (HfClass::Number& number : numbers) {
        if (number.member == &spec::ModelConfig::norm_eps) number.absent = 1e-5;
    }
    return numbers;
}();

inline constexpr std::array olmo2_constants{
    HfClass::Constant{"attention_bias", "false", "false",
                      "an attention with biases beside an MLP without biases"},
};

inline constexpr HfClass olmo2 = [] {
    HfClass c = llama_like("hf-olmo2", "olmo2", "Olmo2ForCausalLM");
    c.in_layers = reordered_layer;
    c.integers = integers_without_head_dim;
    c.numbers = olmo2_numbers;
    c.constants = olmo2_constants;
    c.norms = spec::NormPlacement::reordered;
    c.qk_norm = true;
    c.joint_qk_norm = true;
    return c;
}();

}  // namespace lm::convert::hf
