// SPDX-License-Identifier: Apache-2.0
// Olmo3ForCausalLM: OLMo 2 with a window in most layers, whose rotary frequencies are not scaled.
#pragma once

#include "convert/hf/families/olmo2.hpp"
#include "io/json.hpp"

namespace lm::convert::hf {

inline constexpr std::array olmo3_numbers = [] {
    auto numbers = olmo2_numbers;
    for (HfClass::Number& number : numbers) {
        if (number.member == &spec::ModelConfig::rotary_base) number.absent = 5e5;
    }
    return numbers;
}();

inline constexpr HfClass olmo3 = [] {
    HfClass c = olmo2;
    c.name = "hf-olmo3";
    c.model_type = "olmo3";
    c.class_name = "Olmo3ForCausalLM";
    c.numbers = olmo3_numbers;
    c.absent_window = 4096;
    c.has_window = [](const spec::ModelConfig&, const io::Json&, i64 layer) {
        return (layer + 1) % 4 != 0;
    };
    c.window_required = true;
    c.absent_local_base = 5e5;
    return c;
}();

}  // namespace lm::convert::hf
