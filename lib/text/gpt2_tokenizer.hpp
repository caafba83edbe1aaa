// SPDX-License-Identifier: Apache-2.0
// Loads GPT-2's vocab.json and merges.txt.
#pragma once

#include <memory>
#include <string>

#include "text/bpe/vocabulary.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

// Reads the two files with the checks of load_gpt2_tokenizer().
BpeFiles read_gpt2_files(const std::string& vocab_path, const std::string& merges_path);

// Loads the two files. Checks every entry, because a truncated or edited file must not silently
// give other ids. Throws Error(failure) with the file and line for a truncated file, a duplicate id
// or merge, a byte without a token, a merge of tokens that the vocabulary lacks, and files that do
// not belong together.
std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(const std::string& vocab_path,
                                                     const std::string& merges_path,
                                                     SpecialInText special);

}  // namespace lm::text
