// SPDX-License-Identifier: Apache-2.0
// PretokenEncoder in windows, and the mergers, against PretokenEncoder on whole pre-tokens, with
// GPT-2's merges.
#include "text/bpe/merges/pretoken_encoder.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "nasty_text.hpp"
#include "support/all_mergers.hpp"
#include "support/catch.hpp"
#include "text/bpe_tokenizer.hpp"
#include "text/gpt2_tokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

std::shared_ptr<const Tokenizer> gpt2_tokenizer() {
    return load_gpt2_tokenizer(share_file("tokenizers/gpt2/vocab.json"),
                               share_file("tokenizers/gpt2/merges.txt"), SpecialInText::plain);
}

}  // namespace

TEST_CASE("PretokenEncoder: windows give the same ids as the whole pre-token") {
    const auto tokenizer = gpt2_tokenizer();
    const BpeModel& model = dynamic_cast<const BpeTokenizer&>(*tokenizer).model();
    std::mt19937 random(3);
    for (const std::string alphabet :
         {"a", "ab", "etaoinshr", "-=_*", "aeiouxyz", "ACGT", "0123"}) {
        for (const size_t window : {40U, 64U, 200U}) {
            std::string pretoken;
            for (int i = 0; i < 3000; ++i) pretoken += alphabet[random() % alphabet.size()];
            PretokenEncoder whole(model), windows(model, window);
            const std::span<const i32> want = whole.encode(pretoken);
            std::vector<i32> got;
            int n_windows = 0;
            windows.encode(pretoken, [&](std::span<const i32> ids) {
                got.insert(got.end(), ids.begin(), ids.end());
                ++n_windows;
            });
            INFO(alphabet << " " << window);
            CHECK(std::ranges::equal(got, want));
            CHECK(n_windows > 1);
        }
    }
}

TEST_CASE("mergers: short pre-tokens get the ids of PretokenEncoder") {
    const auto tokenizer = gpt2_tokenizer();
    const BpeModel& model = dynamic_cast<const BpeTokenizer&>(*tokenizer).model();
    std::mt19937 random(5);
    std::vector<PretokenKey> pretokens;
    for (const std::string alphabet : {"a", "etaoinshr ", "-=_* ", "\xE4\xB8\x80", "01 ab"}) {
        for (size_t size = 1; size <= PretokenKey::longest; ++size) {
            for (int i = 0; i < 40; ++i) {
                std::string pretoken;
                while (pretoken.size() < size) pretoken += alphabet[random() % alphabet.size()];
                pretokens.push_back(PretokenKey::of(pretoken));
            }
        }
    }
    for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{9}, pretokens.size()}) {
        PretokenEncoder alone(model);
        for (const auto& merger : test::all_mergers(model)) {
            std::vector<ShortIds> merged(n);
            merger->merge(std::span(pretokens).first(n), merged.data());
            for (size_t i = 0; i < n; ++i) {
                INFO(test::escaped(pretokens[i].text()));
                CHECK(std::ranges::equal(std::span(merged[i].ids).first(merged[i].count),
                                         alone.encode(pretokens[i].text())));
            }
        }
    }
}
