// SPDX-License-Identifier: Apache-2.0
// Exaone4ForCausalLM: the norms of OLMo 2's layers, and a norm of each head of query and key. If
// the model has a window, the layers without it have no rotary positions.
#pragma once

#include "convert/hf/families/olmo2.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr HfClass exaone4 = [] {
    HfClass c = llama_like("hf-exaone4", "exaone4", "Exaone4ForCausalLM");
    c.in_layers = reordered_layer;
    c.numbers = olmo2_numbers;
    c.absent_window = 4096;
    c.has_window = [](const spec::ModelConfig&, const io::Json& json, i64 layer) {
        return (layer + 1) % json.value("sliding_window_pattern", 4) != 0;
    };
    c.only_windows_rotate = true;
    c.any_head_dim = true;
    c.norms = spec::NormPlacement::reordered;
    c.qk_norm = true;
    return c;
}();

}  // namespace lm::convert::hf
