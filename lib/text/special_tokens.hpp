// SPDX-License-Identifier: Apache-2.0
// Finds special tokens ("<|endoftext|>") in text: leftmost first, the longest of those that begin
// there, as the Aho-Corasick automaton of Hugging Face tokenizers does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::text {

struct SpecialToken {
    std::string content;  // not empty
    i32 id;
};

class SpecialMatcher {
  public:
    explicit SpecialMatcher(std::vector<SpecialToken> tokens);

    struct Match {
        size_t begin;  // npos: none
        const SpecialToken* token;
    };
    bool empty() const { return tokens_.empty(); }
    Match find(std::string_view text, size_t from) const;

  private:
    std::vector<SpecialToken> tokens_;  // by first byte, longest first
    u32 first_[257] = {};               // of each first byte, into tokens_
    std::string leads_;                 // the first bytes that occur
};

}  // namespace lm::text
