// SPDX-License-Identifier: Apache-2.0
// Phi3ForCausalLM: Llama with fused projections, rotation of a part of each head, an optional
// window and the frequencies of LongRoPE.
#pragma once

#include <limits>

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array phi3_layer{
    HfClass::Row{"self_attn.qkv_proj", "attention.qkv"},
    HfClass::Row{"self_attn.o_proj", "attention.output"},
    HfClass::Row{"mlp.gate_up_proj", "mlp.gate_up"},
    HfClass::Row{"mlp.down_proj", "mlp.down"},
    HfClass::Row{"input_layernorm", "attention.norm"},
    HfClass::Row{"post_attention_layernorm", "mlp.norm"},
};

inline constexpr std::array phi3_numbers{
    HfClass::Number{"rms_norm_eps", &spec::ModelConfig::norm_eps, 1e-5},
    HfClass::Number{"rope_theta", &spec::ModelConfig::rotary_base, 10000},
    HfClass::Number{"partial_rotary_factor", &spec::ModelConfig::rotary_percent, 1},
    HfClass::Number{"attention_dropout", &spec::ModelConfig::attention_dropout, 0},
    HfClass::Number{"resid_pdrop", &spec::ModelConfig::hidden_dropout, 0},
    HfClass::Number{"initializer_range", &spec::ModelConfig::init_std, 0.02},
};
// Other names of the first versions.
inline constexpr std::array phi3_rope_types{Named{spec::RotaryRule::longrope, "longrope"},
                                            Named{spec::RotaryRule::longrope, "su"},
                                            Named{spec::RotaryRule::longrope, "yarn"}};

inline constexpr HfClass phi3 = [] {
    HfClass c = llama_like("hf-phi3", "phi3", "Phi3ForCausalLM");
    c.in_layers = phi3_layer;
    c.qkv = QkvOrder::whole;
    c.integers = integers_without_head_dim;
    c.numbers = phi3_numbers;
    c.absent_window = std::numeric_limits<i64>::max();
    c.rope_types = phi3_rope_types;
    c.absent_original = 4096;
    // The default of the class is an id of Phi-3's own vocabulary.
    c.write_more = [](const spec::ModelConfig&, io::Json& json) { json["pad_token_id"] = nullptr; };
    return c;
}();

}  // namespace lm::convert::hf
