// SPDX-License-Identifier: Apache-2.0
// Gemma3ForCausalLM, the text model of Gemma 3: norms of inputs and outputs that multiply by 1 +
// weight, GeGLU, an embedding times the root of the hidden size, and in most layers a window and a
// rotary base of its own. transformers rounds the root to the type of the weights, lm-utils does
// not.
#pragma once

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array gemma3_layer{
    HfClass::Row{"self_attn.q_proj", "attention.query"},
    HfClass::Row{"self_attn.k_proj", "attention.key"},
    HfClass::Row{"self_attn.v_proj", "attention.value"},
    HfClass::Row{"self_attn.q_norm", "attention.query_norm"},
    HfClass::Row{"self_attn.k_norm", "attention.key_norm"},
    HfClass::Row{"self_attn.o_proj", "attention.output"},
    HfClass::Row{"mlp.gate_proj", "mlp.gate"},
    HfClass::Row{"mlp.up_proj", "mlp.up"},
    HfClass::Row{"mlp.down_proj", "mlp.down"},
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "attention.output_norm"},
    HfClass::Row{"pre_feedforward_layernorm", "mlp.norm"},
    HfClass::Row{"post_feedforward_layernorm", "mlp.output_norm"},
};

inline constexpr std::array gemma3_integers = [] {
    auto integers = llama_integers;
    for (HfClass::Integer& integer : integers) {
        if (integer.member == &spec::ModelConfig::head_dim) integer.absent = 256;
        if (integer.member == &spec::ModelConfig::max_positions) integer.absent = 131072;
    }
    return integers;
}();
inline constexpr std::array gemma3_numbers{
    HfClass::Number{"rms_norm_eps", &spec::ModelConfig::norm_eps, 1e-6},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 1e6},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
    HfClass::Number{"query_pre_attn_scalar", &spec::ModelConfig::attention_scale, 256,
                    HfClass::Form::inverse_square},
};
inline constexpr std::array gemma3_constants{
    HfClass::Constant{"attention_bias", "false", "false",
                      "an attention with biases beside an MLP without biases"},
    HfClass::Constant{"final_logit_softcapping", "null", "null", "a soft cap of the logits"},
    HfClass::Constant{"use_bidirectional_attention", "false", "false", "an attention without mask"},
};

inline constexpr HfClass gemma3 = [] {
    HfClass c = llama_like("hf-gemma3", "gemma3_text", "Gemma3ForCausalLM");
    c.in_layers = gemma3_layer;
    c.integers = gemma3_integers;
    c.numbers = gemma3_numbers;
    c.constants = gemma3_constants;
    c.activation_key = "hidden_activation";
    c.absent_activation = "gelu_pytorch_tanh";
    c.absent_tied = true;
    c.absent_window = 4096;
    c.has_window = [](const spec::ModelConfig&, const io::Json& json, i64 layer) {
        return (layer + 1) % json.value("sliding_window_pattern", 6) != 0;
    };
    c.window_required = true;
    c.absent_local_base = 1e4;
    c.local_base_key = "rope_local_base_freq";
    c.any_head_dim = true;
    c.scaled_embedding = true;
    c.norms = spec::NormPlacement::peri;
    c.norm_1p = true;
    c.qk_norm = true;
    return c;
}();

}  // namespace lm::convert::hf
