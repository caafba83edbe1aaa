// SPDX-License-Identifier: Apache-2.0
// The components of a tokenizer.json around its model. Each function does exactly what Hugging Face
// tokenizers does, or throws Error(failure) that names `path` and what is not supported.
#pragma once

#include <string>
#include <vector>

#include "io/json.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

Normalizer read_normalizer(const io::Json& json, const std::string& path);

// In pretokenizer_part.cpp.
struct PreTokenizer {
    SplitRule rule;
    bool prefix_space;
};
PreTokenizer read_pre_tokenizer(const io::Json& json, const std::string& path);

struct Template {
    std::vector<i32> prefix, suffix;  // ids around every text
};
Template read_post_processor(const io::Json& json, const std::string& path);

// The first of these that is an added token is the end of document, where nothing else says so.
inline constexpr std::string_view end_of_document_names[] = {"</s>", "<|endoftext|>",
                                                             "<|end_of_text|>"};

// How a tokenizer.json asks for `rule`.
io::OrderedJson pre_tokenizer_json(SplitRule rule);
io::OrderedJson byte_level_json(bool use_regex);

}  // namespace lm::text
