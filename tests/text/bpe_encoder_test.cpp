// SPDX-License-Identifier: Apache-2.0
// BpeEncoder with caches and batches against PretokenEncoder, one pre-token at a time.
#include "text/bpe_encoder.hpp"
#include "text/bpe/merges/pretoken_cache.hpp"
#include "text/bpe/merges/pretoken_encoder.hpp"
#include "text/gpt2_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "support/all_mergers.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "text/bpe_tokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

std::shared_ptr<const Tokenizer> gpt2() {
    return load_gpt2_tokenizer(share_file("tokenizers/gpt2/vocab.json"),
                               share_file("tokenizers/gpt2/merges.txt"), SpecialInText::plain);
}

const BpeModel& model_of(const Tokenizer& tokenizer) {
    return dynamic_cast<const BpeTokenizer&>(tokenizer).model();
}

// Returns a copy of `model` with `more` unused ids and without some merges that no other merge
// needs. The results of the removed merges become whole tokens (ignore_merges).
std::unique_ptr<BpeModel> with_whole_pretokens(const BpeModel& model, size_t more) {
    std::vector<std::string> tokens;
    for (i32 id = 0; id < model.vocab_size(); ++id) tokens.emplace_back(model.token(id));
    tokens.resize(tokens.size() + more);
    std::array<i32, 256> bytes{};
    std::copy_n(model.byte_ids(), bytes.size(), bytes.begin());
    std::set<i32> needed;
    for (const Merge& merge : model.merges()) needed.insert({merge.left, merge.right});
    std::vector<Merge> merges;
    std::vector<i32> whole;
    for (const Merge& merge : model.merges()) {
        if (!needed.contains(merge.result) && merge.result % 3 == 0) {
            whole.push_back(merge.result);
        } else {
            merges.push_back(merge);
        }
    }
    auto made = std::make_unique<BpeModel>(std::move(tokens), bytes, std::move(merges));
    for (const i32 id : whole) made->add_whole_token(id);
    return made;
}

// Returns a text of mostly distinct words, of one to 40 letters, and some very long ones.
std::string text_of(std::mt19937& random, const BpeModel& model, int n_words) {
    const std::vector<std::vector<std::string>> alphabets = {
        {"e", "t", "a", "o", "in", "er", "th", "qu"},
        {"\u0430", "\u0435", "\u043D", "\u0442", "\u044B"},
        {"\u4E00", "\u4EBA", "\u7684", "\u4E0D", "\u5927"},
        {"=", "-", "==", "*", "__"},
        {" ", "\n", "\t"},
        {"\U0001F600", "\u200D", "\u0301"},
    };
    std::string text;
    for (int i = 0; i < n_words; ++i) {
        const auto& alphabet = alphabets[random() % alphabets.size()];
        const size_t longest = random() % 200 == 0 ? 2000 : 40;
        for (size_t n = 1 + random() % longest; n > 0; --n)
            text += alphabet[random() % alphabet.size()];
        if (random() % 2 == 0) text += ' ';
        if (random() % 4 == 0) text += model.token(static_cast<i32>(random() % 50'000));
    }
    return text;
}

std::vector<i32> one_by_one(const BpeModel& model, const std::string& text) {
    const auto pretokenizer = make_pretokenizer(PretokenizerRule::gpt2);
    PretokenEncoder encoder(model);
    std::vector<i32> ids;
    std::array<u32, 128> ends{};
    pretokenizer->start(text);
    u32 begin = 0;
    while (const i64 n = pretokenizer->next(ends.data(), ends.size())) {
        for (i64 i = 0; i < n; ++i) {
            const std::string pretoken = text.substr(begin, ends[static_cast<size_t>(i)] - begin);
            begin = ends[static_cast<size_t>(i)];
            if (const i32 whole = model.find_whole(pretoken); whole >= 0) {
                ids.push_back(whole);
                continue;
            }
            const std::span<const i32> merged = encoder.encode(pretoken);
            ids.insert(ids.end(), merged.begin(), merged.end());
        }
    }
    return ids;
}

// `text_bytes` is the argument of make_bpe_encoder(): -1, or 0, which is less than the texts have.
void check_texts(const BpeModel& model, i64 text_bytes) {
    const auto encoder = make_bpe_encoder(model, PretokenizerRule::gpt2, text_bytes);
    std::mt19937 random(17);
    for (const int n_words : {0, 1, 3, 40, 300, 300, 3000, 3000}) {
        const std::string text = text_of(random, model, n_words);
        const std::vector<i32> want = one_by_one(model, text);
        for (int times = 0; times < 2; ++times) {
            INFO(n_words << " words, the " << times << "th time");
            CHECK((test::ids_of(*encoder, text) == want));
            CHECK((test::ids_consumed(*encoder, text) == want));
        }
    }
}

}  // namespace

TEST_CASE("BpeEncoder: texts with many new and long pre-tokens") {
    const auto tokenizer = gpt2();
    const BpeModel& model = model_of(*tokenizer);
    check_texts(model, -1);
    check_texts(model, 0);
    check_texts(*with_whole_pretokens(model, 0), -1);
    check_texts(*with_whole_pretokens(model, 20'000), 0);  // ids of 32 bits
}

TEST_CASE("mergers: pre-tokens of up to 64 bytes get the ids of PretokenEncoder") {
    const auto tokenizer = gpt2();
    const BpeModel& model = model_of(*tokenizer);
    std::mt19937 random(5);
    std::vector<std::string> texts;  // a pre-token of sizes[i] bytes, then other text
    std::vector<size_t> sizes;
    for (const std::string alphabet : {"a", "etaoinshr ", "-=_* ", "\xD0\xB0\xD0\xB5", "\xFF"}) {
        for (size_t size = 1; size <= MediumIds::longest; ++size) {
            for (int i = 0; i < 25; ++i) {
                std::string text;
                while (text.size() < size) text += alphabet[random() % alphabet.size()];
                texts.push_back(text + std::string(MediumIds::longest + 1, 'e'));
                sizes.push_back(size);
            }
        }
    }
    std::vector<std::string_view> pretokens;
    for (size_t i = 0; i < texts.size(); ++i)
        pretokens.push_back(std::string_view(texts[i]).substr(0, sizes[i]));
    PretokenEncoder alone(model);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{9}, pretokens.size()}) {
        for (const auto& merger : test::all_mergers(model)) {
            std::vector<MediumIds> merged(n);
            merger->merge(std::span(pretokens).first(n), merged.data());
            for (size_t i = 0; i < n; ++i) {
                INFO(pretokens[i]);
                CHECK(std::ranges::equal(std::span(merged[i].ids).first(merged[i].count),
                                         alone.encode(pretokens[i])));
            }
        }
    }
}

TEST_CASE("cache_places: a power of two between the limits, the largest for unknown text") {
    CHECK(cache_places(-1, 16, 1 << 16, 1 << 20) == 1 << 20);
    CHECK(cache_places(0, 16, 1 << 16, 1 << 20) == 1 << 16);
    CHECK(cache_places(4'000'000, 16, 1 << 16, 1 << 20) == 1 << 18);
    CHECK(cache_places(i64{1} << 50, 16, 1 << 16, 1 << 20) == 1 << 20);
}
