// SPDX-License-Identifier: Apache-2.0
// MinistralForCausalLM: Mistral with a window in some layers.
#pragma once

#include "convert/hf/families/mistral.hpp"

namespace lm::convert::hf {

inline constexpr HfClass ministral = [] {
    HfClass c = mistral;
    c.name = "hf-ministral";
    c.model_type = "ministral";
    c.class_name = "MinistralForCausalLM";
    c.has_window = [](const spec::ModelConfig&, const io::Json&, i64) { return true; };
    return c;
}();

}  // namespace lm::convert::hf
