// SPDX-License-Identifier: Apache-2.0
// The files of the tokenizer with which a model was trained, in a step. They have the names that a
// model of Hugging Face gives them, so that a step and such a model are searched alike. A step
// holds them itself, not its directory of steps, so that every copy of a step has them and the
// manifest covers their bytes. They are small: tokenizer.json of 128,000 ids has 9 MB.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt {

inline constexpr std::array<std::string_view, 8> tokenizer_file_names{
    "tokenizer.json",  "tokenizer_config.json",   "vocab.json",        "merges.txt",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

struct TokenizerFile {
    std::string name;  // one of tokenizer_file_names
    i64 bytes = 0;
    std::string digest;
    std::shared_ptr<const std::string> text;  // nullptr: not read
};

TokenizerFile tokenizer_file(std::string_view name, std::string text);

// Returns the files in `directory` that have one of tokenizer_file_names, with their texts. Notes
// and leaves out a Git LFS pointer.
std::vector<TokenizerFile> tokenizer_files_in(const std::string& directory);

// Returns `files` with their texts, which this function reads from the step `step_path`. Throws
// DamageError when a file is missing or does not match its digest.
std::vector<TokenizerFile> read_tokenizer_files(const std::string& step_path,
                                                std::vector<TokenizerFile> files);

// Writes files with texts into `directory`, which has none of them.
void write_tokenizer_files(const std::vector<TokenizerFile>& files, const std::string& directory);

}  // namespace lm::ckpt
