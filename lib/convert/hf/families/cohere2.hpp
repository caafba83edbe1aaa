// SPDX-License-Identifier: Apache-2.0
// Cohere2ForCausalLM: attention and MLP read one LayerNorm without bias; adjacent rotary pairs, in
// the layers with a window only; a factor of the logits.
#pragma once

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

// The MLP has no norm of its own, so this table lacks Llama's row of it.
inline constexpr std::array cohere2_layer = [] {
    std::array<HfClass::Row, llama_layer.size() - 1> rows{};
    std::ranges::copy_if(llama_layer, rows.begin(),
                         [](const HfClass::Row& row) { return row.ours != "mlp.norm"; });
    return rows;
}();

inline constexpr std::array cohere2_numbers{
    HfClass::Number{"layer_norm_eps", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
    HfClass::Number{"logit_scale", &spec::ModelConfig::logit_scale, 0.0625},
};

inline constexpr std::array cohere2_constants{
    HfClass::Constant{"attention_bias", "false", "false",
                      "an attention with biases beside an MLP without biases"},
};

inline constexpr HfClass cohere2 = [] {
    HfClass c = llama_like("hf-cohere2", "cohere2", "Cohere2ForCausalLM");
    c.in_layers = cohere2_layer;
    c.integers = integers_without_head_dim;
    c.numbers = cohere2_numbers;
    c.constants = cohere2_constants;
    c.absent_tied = true;
    c.absent_window = 4096;
    c.has_window = [](const spec::ModelConfig&, const io::Json& json, i64 layer) {
        return (layer + 1) % json.value("sliding_window_pattern", 4) != 0;
    };
    c.only_windows_rotate = true;
    c.window_required = true;
    c.normalization = spec::Normalization::layer_norm;
    c.norm_bias = false;
    c.shared_norm = true;
    c.rotary_interleaved = true;
    return c;
}();

}  // namespace lm::convert::hf
