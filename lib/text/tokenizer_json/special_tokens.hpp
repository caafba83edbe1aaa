// SPDX-License-Identifier: Apache-2.0
// What the files beside a tokenizer.json say of special tokens: tokenizer_config.json and
// special_tokens_map.json, which transformers reads and Hugging Face tokenizers does not know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens/added_tokens.hpp"

namespace lm::text {

struct NamedTokens {
    std::optional<std::string> eos;
    std::string eos_path;            // of the file that says so
    std::vector<AddedToken> tokens;  // without ids; some may stand twice
};

// Of the tokenizer.json `path`. Throws Error(failure) naming the file that is wrong.
NamedTokens read_named_tokens(const std::string& path);

// The first of these that is an added token is the end of document, where nothing else says so.
inline constexpr std::string_view end_of_document_names[] = {"</s>", "<|endoftext|>",
                                                             "<|end_of_text|>"};

}  // namespace lm::text
