// SPDX-License-Identifier: Apache-2.0
// AddedTokenMatcher against a matcher that tries every token at every position.
#include "text/added_tokens/added_tokens.hpp"

#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "nasty_text.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

namespace {

// The reference: the leftmost token, and the longest at that position; -1 for each byte outside of
// tokens.
std::vector<i32> slow_ids(const std::vector<AddedToken>& tokens, std::string_view text) {
    std::vector<i32> ids;
    while (!text.empty()) {
        const AddedToken* longest = nullptr;
        for (const AddedToken& token : tokens)
            if (text.starts_with(token.content) &&
                (longest == nullptr || token.content.size() > longest->content.size()))
                longest = &token;
        ids.push_back(longest == nullptr ? -1 : longest->id);
        text.remove_prefix(longest == nullptr ? 1 : longest->content.size());
    }
    return ids;
}

// Returns the ids that slow_ids() returns, computed by AddedTokenMatcher.
std::vector<i32> ids_between(const AddedTokenMatcher& matcher, std::string_view text) {
    std::vector<i32> ids;
    matcher.split(
        text, [&](std::string_view part) { ids.insert(ids.end(), part.size(), -1); },
        [&](i32 id) { ids.push_back(id); });
    return ids;
}

}  // namespace

TEST_CASE("added tokens: the longest token at each position is found") {
    std::mt19937 random(3);
    const auto word = [&](const std::string& alphabet, size_t n) {
        std::string text;
        while (text.size() < n) text += alphabet[random() % alphabet.size()];
        return text;
    };
    for (int round = 0; round < 300; ++round) {
        const std::string alphabet =
            std::array{"ab", "a<|> \n", "abcdefghijkl[]\xC3\xA9"}[round % 3];
        std::vector<AddedToken> tokens;
        std::set<std::string> known;
        for (size_t n = 1 + random() % 12; n > 0; --n) {
            AddedToken token{word(alphabet, 1 + random() % (round % 7 == 0 ? 40 : 4)), 0};
            token.id = static_cast<i32>(tokens.size());
            if (known.insert(token.content).second) tokens.push_back(token);
        }
        const AddedTokenMatcher matcher(tokens, false);
        for (int i = 0; i < 20; ++i) {
            std::string text =
                word(alphabet + (i % 2 == 0 ? "" : "zzzzzzzzzzzzzzzz"), random() % 200);
            for (int k = 0; k < 4; ++k)
                text += tokens[random() % tokens.size()].content + word("z", k);
            INFO(test::escaped(text));
            CHECK(ids_between(matcher, text) == slow_ids(tokens, text));
        }
    }
}

TEST_CASE("added tokens: long near matches at every position take linear time") {
    // A minute, if 20,000 bytes were compared at each position.
    const std::string many(2'000'000, 'a');
    const std::string unit(20'000, 'a');
    const AddedTokenMatcher matcher({{unit + "b", 0}, {unit + "c", 1}, {"ab", 2}}, false);
    CHECK(ids_between(matcher, many).size() == many.size());
}
