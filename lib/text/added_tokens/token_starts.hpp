// SPDX-License-Identifier: Apache-2.0
// Where in a text one of some strings may begin, by their first two bytes; 32 places at a time
// where there is AVX2, by a look-up of half bytes (Mula's, as in the matcher Teddy of Hyperscan).
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

    // The first place from `from` on where a token may begin; npos: there is none. Every token
    // that is there begins at such a place.
    size_t find(std::string_view text, size_t from) const;

  private:
    size_t find_one_by_one(std::string_view text, size_t from) const;
    size_t find_by_blocks(std::string_view text, size_t& from) const;

    // Bit k of low[n][h] and of high[n][h]: byte n of a token of the k-th group has the half h.
    // Tokens are in the same group when their first bytes are alike.
    struct alignas(16) Halves {
        std::array<u8, 16> low{}, high{};
        void add(u8 byte, u8 group);
        void add_any(u8 group);
    };
    Halves first_, second_;
    std::bitset<size_t{1} << 16> pairs_;  // by the first byte << 8 | the second
    std::bitset<256> alone_;              // tokens of one byte
    std::bitset<256> leads_;              // first bytes
    std::optional<char> only_lead_;       // where there is one only
    bool by_blocks_;
};

}  // namespace lm::text
