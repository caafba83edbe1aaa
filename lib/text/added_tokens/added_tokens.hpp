// SPDX-License-Identifier: Apache-2.0
// Finds the added tokens ("<|endoftext|>") of a text and applies their flags. Finds the leftmost
// match, and of several matches at the same position the longest one, as the Aho-Corasick automaton
// of Hugging Face tokenizers does.
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
    bool special = true;       // encoded as ordinary text with --special-in-text plain
    bool normalized = false;   // found in the normalized text instead of the raw text
    bool single_word = false;  // found only if no word character is next to it
    bool lstrip = false;       // the match includes the whitespace before the token
    bool rstrip = false;       // the match includes the whitespace after the token

    bool operator==(const AddedToken&) const = default;
};

class AddedTokenMatcher {
  public:
    AddedTokenMatcher() = default;
    // With ignore_special, special tokens are still matched, but their text stays text and gets no
    // id. So a shorter token inside a special token is not found.
    AddedTokenMatcher(std::vector<AddedToken> tokens, bool ignore_special);

    bool empty() const { return tokens_.empty(); }

    // Calls text(std::string_view) for each non-empty text between tokens, and token(i32) with the
    // id of each token, in order.
    template <typename Text, typename Token>
    void split(std::string_view whole, Text text, Token token) const {
        size_t done = 0;
        size_t stripped = 0;  // the end of the whitespace after the last token with rstrip
        for (Match match = find(whole, 0); match.token != nullptr; match = find(whole, match.end)) {
            if (ignored(whole, match)) continue;
            const bool rstrip = match.token->rstrip;
            if (rstrip && match.end > stripped) stripped = strip_after(whole, match.end);
            const size_t begin =
                match.token->lstrip ? strip_before(whole, match.begin, done) : match.begin;
            const size_t end = rstrip ? std::max(match.end, stripped) : match.end;
            // As in Hugging Face tokenizers, a token gets its id even inside the whitespace that
            // rstrip adds to the previous token. The token is dropped only if lstrip moves `begin`
            // to `end` or beyond.
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
        const AddedToken* token;  // nullptr: no match
    };
    Match find(std::string_view text, size_t from) const;
    const AddedToken* longest_at(std::string_view text) const;
    bool ignored(std::string_view whole, const Match& match) const;
    static size_t strip_before(std::string_view whole, size_t begin, size_t least);
    static size_t strip_after(std::string_view whole, size_t end);

    bool ignore_special_ = false;
    std::vector<AddedToken> tokens_;  // sorted by content
    // For each token: the index of the longest other token that is a prefix of this token, or the
    // token's own index if there is no such token.
    std::vector<size_t> prefix_of_;
    TokenStarts starts_;
};

}  // namespace lm::text
