// SPDX-License-Identifier: Apache-2.0
// Encoding with merge tables that training does not produce but conversions from other formats do:
// several merges with the same result, merges in any order. Against ReferenceBpe.
#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/merges/pretoken_encoder.hpp"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "nasty_text.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/reference_bpe.hpp"
#include "text/bpe_encoder.hpp"

using namespace lm;
using namespace lm::text;

namespace {

// Returns a model with tokens of letters of `alphabet`, most of the possible merges of each in
// random order, and `n_unused` more ids without a token.
BpeModel tangled_model(std::mt19937& random, const std::string& alphabet, size_t n_tokens,
                       size_t n_unused = 0) {
    std::vector<std::string> tokens;
    std::array<i32, 256> byte_ids{};
    for (int byte = 0; byte < 256; ++byte) {
        byte_ids[static_cast<size_t>(byte)] = byte;
        tokens.emplace_back(1, static_cast<char>(byte));
    }
    std::vector<std::string> words;
    for (const char c : alphabet) words.emplace_back(1, c);
    std::set<std::string> known(words.begin(), words.end());
    while (words.size() < n_tokens) {
        const std::string word = words[random() % words.size()] + words[random() % words.size()];
        if (word.size() > 12 || !known.insert(word).second) continue;
        words.push_back(word);
        tokens.push_back(word);
    }
    const auto id_of = [&](const std::string& word) {
        const auto at = std::ranges::find(tokens, word);
        return at == tokens.end() ? -1 : static_cast<i32>(at - tokens.begin());
    };
    std::vector<Merge> merges;
    for (const std::string& word : words) {
        for (size_t cut = 1; cut < word.size(); ++cut) {
            const i32 left = id_of(word.substr(0, cut));
            const i32 right = id_of(word.substr(cut));
            if (left >= 0 && right >= 0 && random() % 8 != 0)
                merges.push_back({left, right, id_of(word)});
        }
    }
    std::ranges::shuffle(merges, random);
    tokens.resize(tokens.size() + n_unused);
    return {std::move(tokens), byte_ids, std::move(merges)};
}

std::string random_text(std::mt19937& random, const std::string& alphabet, size_t size) {
    std::string text;
    while (text.size() < size) text += alphabet[random() % alphabet.size()];
    return text;
}

}  // namespace

TEST_CASE("windows of long pre-tokens with arbitrary merges") {
    std::mt19937 random(11);
    int n_cut = 0;
    for (int round = 0; round < 60; ++round) {
        const std::string alphabet = round % 2 == 0 ? "ab" : "abcd";
        const BpeModel model = tangled_model(random, alphabet, 10 + random() % 60);
        const std::string pretoken = random_text(random, alphabet, 400 + random() % 400);
        PretokenEncoder windows(model, 16 + random() % 100);
        std::vector<i32> got;
        int n_windows = 0;
        windows.encode(pretoken, [&](std::span<const i32> ids) {
            got.insert(got.end(), ids.begin(), ids.end());
            ++n_windows;
        });
        n_cut += n_windows > 1;
        CHECK(got == test::ReferenceBpe(model).of_pretoken(pretoken));
    }
    CHECK(n_cut > 30);
}

TEST_CASE("texts with arbitrary merges, in ids of 16 and of 32 bits") {
    std::mt19937 random(13);
    for (int round = 0; round < 40; ++round) {
        const std::string alphabet = round % 2 == 0 ? "abc" : "abcdef";
        const size_t n_unused = round % 4 < 2 ? 0 : 70'000;
        BpeModel model = tangled_model(random, alphabet, 20 + random() % 100, n_unused);
        const test::ReferenceBpe slow(model);
        // As with ignore_merges: tokens that BPE does not produce from their bytes.
        int n_whole = 0;
        for (i32 id = 256; round % 3 == 0 && id < 256 + 20; ++id) {
            if (model.token(id).empty() || slow.of_pretoken(model.token(id)).size() == 1) continue;
            model.add_whole_token(id);
            ++n_whole;
        }
        INFO(round << ", " << n_whole << " whole tokens");
        const auto encoder = make_bpe_encoder(model, PretokenizerRule::gpt2, -1);
        for (int i = 0; i < 40; ++i) {
            const std::string text =
                random_text(random, alphabet + "   -\n", 1 + random() % (i % 8 == 0 ? 3000 : 90));
            CHECK(test::ids_of(*encoder, text) == slow.of_text(PretokenizerRule::gpt2, text));
        }
    }
}
