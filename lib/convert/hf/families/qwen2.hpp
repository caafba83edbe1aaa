// SPDX-License-Identifier: Apache-2.0
// Qwen2ForCausalLM: Llama with biases of query, key and value, and with a window in the last
// layers.
#pragma once

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

// Sets the members for the windows of Qwen2 and Qwen3.
constexpr void add_qwen_windows(HfClass& c) {
    c.absent_window = 4096;
    c.window_switch = "use_sliding_window";
    c.has_window = [](const spec::ModelConfig&, const io::Json& json, i64 layer) {
        return layer >= io::json_get_or<i64>(json, "max_window_layers", 28, "config.json");
    };
    // Versions of transformers before 4.53 do not read layer_types.
    c.write_more = [](const spec::ModelConfig& config, io::Json& json) {
        i64 layer = 0;
        while (layer < config.n_layers && config.layer(layer).window == 0) ++layer;
        json["max_window_layers"] = layer;
    };
}

inline constexpr HfClass qwen2 = [] {
    HfClass c = llama_like("hf-qwen2", "qwen2", "Qwen2ForCausalLM");
    add_qwen_windows(c);
    c.qkv_bias = true;
    return c;
}();

}  // namespace lm::convert::hf
