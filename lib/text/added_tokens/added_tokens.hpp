// SPDX-License-Identifier: Apache-2.0
// Finds added tokens ("<|endoftext|>") in text: leftmost first, the longest of those that begin
// there, as the Aho-Corasick automaton of Hugging Face tokenizers does, and then what its flags
// say.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "text/added_tokens/token_starts.hpp"

namespace lm::text {

struct AddedToken {
    std::string content;  // not empty
    i32 id;
    bool special = true;       // --special-in-text plain leaves it alone
    bool normalized = false;   // looked for in normalized text instead of raw text
    bool single_word = false;  // only where no word character stands next to it
    bool lstrip = false;       // swallows the whitespace before it
    bool rstrip = false;       // swallows the whitespace behind it

    bool operator==(const AddedToken&) const = default;
};

class AddedTokenMatcher {
  public:
    AddedTokenMatcher() = default;
    // With ignore_special the special ones are found, so that no shorter one is found in their
    // place, but stay text.
    AddedTokenMatcher(std::vector<AddedToken> tokens, bool ignore_special);

    bool empty() const { return tokens_.empty(); }

    // Calls text(std::string_view) for what lies between tokens, if anything does, and token(i32)
    // for each token, in order.
    template <typename Text, typename Token>
    void split(std::string_view whole, Text text, Token token) const {
        size_t done = 0;
        size_t swallowed = 0;  // the end of the whitespace that the last rstrip saw
        for (Match match = find(whole, 0); match.token != nullptr; match = find(whole, match.end)) {
            if (ignored(whole, match)) continue;
            const bool rstrip = match.token->rstrip;
            if (rstrip && match.end > swallowed) swallowed = strip_after(whole, match.end);
            const size_t begin =
                match.token->lstrip ? strip_before(whole, match.begin, done) : match.begin;
            const size_t end = rstrip ? std::max(match.end, swallowed) : match.end;
            // A token in the whitespace that the one before has swallowed counts all the same, as
            // in Hugging Face tokenizers, unless lstrip leaves nothing of it.
            if (begin >= end) continue;
            if (done < begin) text(whole.substr(done, begin - done));
            token(match.token->id);
            done = end;
        }
        if (done < whole.size()) text(whole.substr(done));
    }

  private:
    struct Match {
        size_t begin, end;
        const AddedToken* token;  // null: none
    };
    Match find(std::string_view text, size_t from) const;
    const AddedToken* longest_at(std::string_view text) const;
    bool ignored(std::string_view whole, const Match& match) const;
    static size_t strip_before(std::string_view whole, size_t begin, size_t least);
    static size_t strip_after(std::string_view whole, size_t end);

    bool ignore_special_ = false;
    std::vector<AddedToken> tokens_;  // by content
    std::vector<size_t> prefix_of_;  // the longest other token that each begins with; its own: none
    TokenStarts starts_;
};

}  // namespace lm::text
