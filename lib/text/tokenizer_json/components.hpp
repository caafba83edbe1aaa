// SPDX-License-Identifier: Apache-2.0
// The normalizer and the post-processor of a tokenizer.json. Each function reads a component such
// that the ids equal those of Hugging Face tokenizers, or throws Error(failure) with `path` and the
// unsupported option.
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
