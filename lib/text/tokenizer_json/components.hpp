// SPDX-License-Identifier: Apache-2.0
// Reads the normalizer and the post-processor of a tokenizer.json. The functions throw
// Error(failure) with `path` and the option for an option that they do not apply exactly as Hugging
// Face tokenizers do, because the ids would differ.
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
