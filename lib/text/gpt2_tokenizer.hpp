// SPDX-License-Identifier: Apache-2.0
// GPT-2's vocab.json and merges.txt.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.hpp"

namespace lm::text {

// GPT-2's files. Throws Error(failure) naming the file and line for everything that is not right: a
// file that is cut short, ids or merges that stand twice, a byte without a token, a merge of tokens
// that the vocabulary lacks, a vocabulary of other merges.
std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(const std::string& vocab_path,
                                                     const std::string& merges_path,
                                                     SpecialInText special);

}  // namespace lm::text
