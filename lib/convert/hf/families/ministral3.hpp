// SPDX-License-Identifier: Apache-2.0
// Ministral3ForCausalLM: Mistral with queries that are scaled by their positions.
#pragma once

#include <limits>

#include "convert/hf/families/seed_oss.hpp"

namespace lm::convert::hf {

inline constexpr std::array ministral3_numbers = [] {
    auto numbers = llama_numbers;
    for (HfClass::Number& number : numbers) {
        if (number.member == &spec::ModelConfig::norm_eps) number.absent = 1e-5;
    }
    return numbers;
}();

inline constexpr HfClass ministral3 = [] {
    HfClass c = llama_like("hf-ministral3", "ministral3", "Ministral3ForCausalLM");
    c.integers = seed_oss_integers;
    c.numbers = ministral3_numbers;
    c.absent_window = std::numeric_limits<i64>::max();
    c.absent_rope = R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                        "original_max_position_embeddings": 16384, "beta_fast": 32.0,
                        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                        "llama_4_scaling_beta": 0.1})";
    c.query_scale = true;
    c.any_head_dim = true;
    // The default of the class is an id of Mistral's own vocabulary.
    c.write_more = [](const spec::ModelConfig&, io::Json& json) { json["pad_token_id"] = nullptr; };
    return c;
}();

}  // namespace lm::convert::hf
