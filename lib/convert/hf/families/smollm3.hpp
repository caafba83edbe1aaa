// SPDX-License-Identifier: Apache-2.0
// SmolLM3ForCausalLM: Llama without rotary positions in every fourth layer. A window, if there is
// one, holds in these layers only.
#pragma once

#include <limits>

#include "convert/hf/families/llama.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array smollm3_numbers = [] {
    auto numbers = llama_numbers;
    for (HfClass::Number& number : numbers) {
        if (number.member == &spec::ModelConfig::rotary_base) number.absent = 2e6;
    }
    return numbers;
}();

inline constexpr HfClass smollm3 = [] {
    HfClass c = llama_like("hf-smollm3", "smollm3", "SmolLM3ForCausalLM");
    c.numbers = smollm3_numbers;
    c.flags = llama_flags;
    c.absent_tied = true;
    c.absent_window = std::numeric_limits<i64>::max();
    c.window_switch = "use_sliding_window";
    c.has_window = [](const spec::ModelConfig& config, const io::Json&, i64 layer) {
        return config.unrotated_layers.has(layer);
    };
    c.unrotated_layers = true;
    // The default of the class is an id of SmolLM3's own vocabulary.
    c.write_more = [](const spec::ModelConfig&, io::Json& json) { json["pad_token_id"] = nullptr; };
    return c;
}();

}  // namespace lm::convert::hf
