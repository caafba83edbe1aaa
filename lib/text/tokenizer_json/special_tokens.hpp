// SPDX-License-Identifier: Apache-2.0
// Reads what tokenizer_config.json, special_tokens_map.json and added_tokens.json state about a
// tokenizer. These files are in the directory of the tokenizer.json. transformers reads them, but
// Hugging Face tokenizers does not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens/added_tokens.hpp"

namespace lm::text {

struct NamedTokens {
    std::optional<std::string> bos, eos, pad;
    std::optional<bool> adds_bos, adds_eos;  // add_bos_token, add_eos_token
    std::string tokenizer_class;             // empty: not stated
    bool prefix_space = false;               // add_prefix_space
    bool splits_special = false;             // split_special_tokens
    std::string config_path;                 // tokenizer_config.json
    std::string eos_path;                    // the file that defines eos
    // The tokens of added_tokens_decoder, else of added_tokens.json, with the ids there. Their
    // flags replace those of the tokenizer.json.
    std::vector<AddedToken> listed;
    std::vector<AddedToken> tokens;  // the others, possibly with duplicates; all have the id -1
};

// The token of a role, such as "eos_token", in a class of tokenizers whose files do not state it.
struct DefaultToken {
    std::string_view role;
    std::string_view content;
};

// Reads the files next to the tokenizer.json `path`. `defaults` replace roles that no file names;
// a null is a name. Throws Error(failure) with the path of an invalid file.
NamedTokens read_named_tokens(const std::string& path, std::span<const DefaultToken> defaults = {});

// Returns the class of the tokenizer in `directory` as AutoTokenizer of transformers finds it:
// tokenizer_class of tokenizer_config.json, else that of config.json, else Qwen2Tokenizer for the
// models of this tokenizer. Returns an empty text if no file states it.
std::string tokenizer_class_in(const std::string& directory);

// If no file defines eos, the end of document is the first of these names that is an added token.
inline constexpr std::string_view end_of_document_names[] = {"</s>", "<|endoftext|>",
                                                             "<|end_of_text|>"};

}  // namespace lm::text
