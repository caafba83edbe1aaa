// SPDX-License-Identifier: Apache-2.0
// Reads the normalizer and the post-processor of a tokenizer.json. If a component has an option
// with which the ids would differ from the ids of Hugging Face tokenizers, the functions throw
// Error(failure) with `path` and the option.
#pragma once

#include <string>
#include <vector>

#include "io/json.hpp"
#include "text/normalizer/normalizer.hpp"

namespace lm::text {

Normalizer read_normalizer(const io::Json& json, const std::string& path);

struct Template {
    std::vector<i32> prefix, suffix;  // ids before and after every text
};
Template read_post_processor(const io::Json& json, const std::string& path);

}  // namespace lm::text
