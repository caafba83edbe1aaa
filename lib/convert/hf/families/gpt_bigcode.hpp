// SPDX-License-Identifier: Apache-2.0
// GPTBigCodeForCausalLM: GPT-2 with matrices that are [out, in], and one key-value group for all
// heads.
#pragma once

#include "convert/hf/families/gpt2.hpp"

namespace lm::convert::hf {

inline constexpr std::array gpt_bigcode_constants{
    HfClass::Constant{"multi_query", "true", "true",
                      "keys and values of each head, in another order of rows"},
    HfClass::Constant{"scale_attn_weights", "true", "true", unscaled_scores},
    HfClass::Constant{"add_cross_attention", "false", "false", cross_attention},
};

inline constexpr HfClass gpt_bigcode = [] {
    HfClass c = gpt2;
    c.name = "hf-gpt-bigcode";
    c.model_type = "gpt_bigcode";
    c.class_name = "GPTBigCodeForCausalLM";
    c.conv1d = false;
    c.constants = gpt_bigcode_constants;
    c.absent_activation = "gelu_pytorch_tanh";
    c.write_more = write_n_inner;
    c.n_groups = 1;
    return c;
}();

}  // namespace lm::convert::hf
