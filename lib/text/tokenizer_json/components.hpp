// SPDX-License-Identifier: Apache-2.0
// The components of a tokenizer.json around its model. Each function does exactly what Hugging Face
// tokenizers does, or throws Error(failure) that names `path` and what is not supported.
#pragma once

#include <string>
#include <vector>

#include "io/json.hpp"
#include "text/normalizer/normalizer.hpp"

namespace lm::text {

Normalizer read_normalizer(const io::Json& json, const std::string& path);

struct Template {
    std::vector<i32> prefix, suffix;  // ids around every text
};
Template read_post_processor(const io::Json& json, const std::string& path);

}  // namespace lm::text
