// SPDX-License-Identifier: Apache-2.0
// SeedOssForCausalLM: Llama with biases of query, key and value, and heads of any size.
#pragma once

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array seed_oss_integers = [] {
    auto integers = llama_integers;
    for (HfClass::Integer& integer : integers) {
        if (integer.member == &spec::ModelConfig::head_dim) integer.absent = 128;
        if (integer.member == &spec::ModelConfig::n_groups) integer.absent = 8;
    }
    return integers;
}();
inline constexpr std::array seed_oss_numbers{
    HfClass::Number{"rms_norm_eps", &spec::ModelConfig::norm_eps, 1e-6},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0.1},
    HfClass::Number{"residual_dropout", &spec::ModelConfig::hidden_dropout, 0.1},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
inline constexpr std::array seed_oss_flags{
    HfClass::Flag{"attention_bias", &spec::ModelConfig::qkv_bias, true},
};
inline constexpr std::array seed_oss_constants{
    HfClass::Constant{"attention_out_bias", "false", "false",
                      "an output bias of attention beside an MLP without biases"},
    HfClass::Constant{"mlp_bias", "false", "false",
                      "an MLP with biases beside an attention without output bias"},
};

inline constexpr HfClass seed_oss = [] {
    HfClass c = llama_like("hf-seed-oss", "seed_oss", "SeedOssForCausalLM");
    c.integers = seed_oss_integers;
    c.numbers = seed_oss_numbers;
    c.flags = seed_oss_flags;
    c.constants = seed_oss_constants;
    c.any_head_dim = true;
    // The default of the class is an id of Seed-OSS's own vocabulary.
    c.write_more = [](const spec::ModelConfig&, io::Json& json) { json["pad_token_id"] = nullptr; };
    return c;
}();

}  // namespace lm::convert::hf
