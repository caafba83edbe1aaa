// SPDX-License-Identifier: Apache-2.0
// Finds the positions of a text where a token can begin, by comparing two bytes of the text with
// the first two bytes of the tokens. With AVX2 it tests 32 positions at a time by table look-ups of
// half bytes, like the matcher Teddy of Hyperscan (Wang et al., NSDI 2019; the look-up is by W.
// Mula).
#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

class TokenStarts {
  public:
    TokenStarts();
    void add(std::string_view token);  // not empty

    // Returns the first position >= `from` where a token can begin, or npos. Not every returned
    // position has a token, but no position with a token is skipped.
    size_t find(std::string_view text, size_t from) const;

  private:
    size_t find_one_by_one(std::string_view text, size_t from) const;
    size_t find_by_blocks(std::string_view text, size_t& from) const;

    // The tokens are divided into eight groups by their first byte. Bit k of low[h] is set if some
    // token of group k has a byte whose low half is h. Bit k of high[h] is set if some token of
    // group k has a byte whose high half is h. A byte can belong to a token of group k only if bit
    // k is set for both halves of the byte.
    struct alignas(16) Halves {
        std::array<u8, 16> low{}, high{};
        void add(u8 byte, u8 group);
        void add_any(u8 group);
    };
    Halves first_, second_;               // for the first and for the second byte of the tokens
    std::bitset<size_t{1} << 16> pairs_;  // first two bytes of tokens, as first << 8 | second
    std::bitset<256> alone_;              // the tokens of one byte
    std::bitset<256> leads_;              // first bytes of all tokens
    std::optional<char> only_lead_;       // set if all tokens have the same first byte
    bool by_blocks_;
};

}  // namespace lm::text
