// SPDX-License-Identifier: Apache-2.0
// Reads the special tokens that tokenizer_config.json and special_tokens_map.json define. These
// files are in the directory of the tokenizer.json. transformers reads them, but Hugging Face
// tokenizers does not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens/added_tokens.hpp"

namespace lm::text {

struct NamedTokens {
    std::optional<std::string> bos, eos;
    std::optional<bool> adds_bos, adds_eos;  // add_bos_token, add_eos_token
    std::string config_path;                 // tokenizer_config.json
    std::string eos_path;                    // the file that defines eos
    std::vector<AddedToken> tokens;          // without ids, possibly with duplicates
};

// Reads the files next to the tokenizer.json `path`. Throws Error(failure) with the path of an
// invalid file.
NamedTokens read_named_tokens(const std::string& path);

// If no file defines eos, the end of document is the first of these names that is an added token.
inline constexpr std::string_view end_of_document_names[] = {"</s>", "<|endoftext|>",
                                                             "<|end_of_text|>"};

}  // namespace lm::text
