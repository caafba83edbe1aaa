// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers against golden splits, on which python regex and Hugging Face tokenizers agree,
// and on random text: the fast implementations against the portable one, and the portable one
// against the regular expressions.
#include <memory>
#include <string>
#include <vector>

#include "nasty_text.hpp"
#include "support/catch.hpp"
#include "support/reference_pretokenizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/pretokenizer/x86/gpt2_pretokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

std::vector<std::string> split(Pretokenizer& pretokenizer, const std::string& text) {
    std::vector<std::string> pretokens;
    pretokenizer.start(text);
    u32 ends[128];
    u32 begin = 0;
    while (const i64 n = pretokenizer.next(ends, 128)) {
        for (i64 i = 0; i < n; ++i) {
            pretokens.push_back(text.substr(begin, ends[i] - begin));
            begin = ends[i];
        }
    }
    REQUIRE(begin == text.size());
    return pretokens;
}

struct Golden {
    const char* text;
    std::vector<std::string> pretokens;
};

// Splits by Hugging Face tokenizers 0.23.
struct RuleGolden {
    PretokenizerRule rule;
    const char* text;
    std::vector<std::string> pretokens;
};

const std::vector<RuleGolden> golden_others = {
    {PretokenizerRule::o200k,
     "HelloWorld's ABCdef XMLHttp",
     {"Hello", "World's", " ABCdef", " XMLHttp"}},
    {PretokenizerRule::o200k, "A\u4E2DBc!\n/x 1234", {"A\u4E2DBc", "!\n/", "x", " ", "123", "4"}},
    {PretokenizerRule::tekken, "Don't 12", {"Don", "'t", " ", "1", "2"}},
    {PretokenizerRule::qwen3_5, "e\u0301a !\u0301b", {"e\u0301a", " !", "\u0301b"}},
    {PretokenizerRule::deepseek_v3,
     "don't 12345 \u4E2D\u3042a.b \u20AC\n\n",
     {"don", "'t", " ", "123", "45", " ", "\u4E2D\u3042", "a", ".b", " \u20AC\n\n"}},
    {PretokenizerRule::deepseek_coder,
     "a  b.c 12\r\n\u4E2D",
     {"a", " ", " b", ".", "c", " ", "1", "2", "\r", "\n", "\u4E2D"}},
    {PretokenizerRule::falcon,
     "price: 12,345.67 x\u00B2y 1234567",
     {"price", ":", " ", "12", ",", "345", ".", "67", " x", "\xC2", "\xB2", "y", " ", "123", "456",
      "7"}},
};

const std::vector<Golden> golden_gpt2 = {
    {"a  b", {"a", " ", " b"}},
    {"a   \n\n b", {"a", "   \n\n", " b"}},
    {"hi\r\n\r\nyo", {"hi", "\r\n\r", "\n", "yo"}},
    {"I'LL don't", {"I", "'", "LL", " don", "'t"}},
    {"'S 's", {"'", "S", " '", "s"}},
    {"it''s '' ''' 'stuff", {"it", "''", "s", " ''", " '''", " '", "stuff"}},
    {"\u00A0x", {"\u00A0", "x"}},
    {"  \u3000x", {"  ", "\u3000", "x"}},
    {"a\t\tb", {"a", "\t", "\t", "b"}},
    {"end  ", {"end", "  "}},
    {"'s's're'llama", {"'s", "'s", "'re", "'ll", "ama"}},
    {"a\u0301 \u00B2\u2167x", {"a", "\u0301", " \u00B2\u2167", "x"}},
    {" \x1C \x1C", {" \x1C", " \x1C"}},
};

std::vector<std::unique_ptr<Pretokenizer>> gpt2_pretokenizers() {
    std::vector<std::unique_ptr<Pretokenizer>> all;
    all.push_back(make_scalar_pretokenizer(PretokenizerRule::gpt2));
    if (has_avx2_pretokenizers()) all.push_back(make_avx2_gpt2_pretokenizer());
    if (has_avx512_pretokenizers()) all.push_back(make_avx512_gpt2_pretokenizer());
    return all;
}

}  // namespace

TEST_CASE("pre-tokenizers: golden splits of gpt2") {
    for (const Golden& golden : golden_gpt2) {
        INFO(golden.text);
        for (const auto& pretokenizer : gpt2_pretokenizers())
            CHECK(split(*pretokenizer, golden.text) == golden.pretokens);
    }
}

TEST_CASE("pre-tokenizers: gpt2 for AVX2 and AVX-512 equals the portable one") {
    const auto pretokenizers = gpt2_pretokenizers();
    test::NastyText nasty(11);
    for (int i = 0; i < 20000; ++i) {
        // Also texts of few kinds of characters, with a pre-token at nearly every byte of a block.
        std::string text = nasty.next(i % 400);
        if (i % 4 == 0) text = std::string(text.size(), "a1' "[i % 16 / 4]);
        if (i % 4 == 1)
            for (size_t k = 0; k < text.size(); ++k) text[k] = "a1'!"[nasty.draw(4)];
        const auto pretokens = split(*pretokenizers[0], text);
        for (const auto& pretokenizer : pretokenizers) {
            if (split(*pretokenizer, text) != pretokens) FAIL(test::escaped(text));
        }
    }
}

TEST_CASE("pre-tokenizers: golden splits of other rules") {
    for (const RuleGolden& golden : golden_others) {
        INFO(golden.text);
        CHECK(split(*make_pretokenizer(golden.rule), golden.text) == golden.pretokens);
    }
}

TEST_CASE("pre-tokenizers: the fast implementations equal the portable ones") {
    for (const PretokenizerRule rule : {PretokenizerRule::gpt2, PretokenizerRule::llama3,
                                        PretokenizerRule::qwen2, PretokenizerRule::bloom}) {
        const auto fast = make_pretokenizer(rule);
        const auto scalar = make_scalar_pretokenizer(rule);
        test::NastyText nasty(1);
        for (int i = 0; i < 20000; ++i) {
            // Some texts are longer than the window of the masked pre-tokenizers.
            const std::string text = nasty.next(i % 1000 == 0 ? 9000 : i % 400);
            if (split(*fast, text) != split(*scalar, text)) {
                FAIL("rule " << static_cast<int>(rule) << ": " << test::escaped(text));
            }
        }
    }
}

TEST_CASE("pre-tokenizers: the portable ones equal the regular expressions") {
    for (const PretokenizerRule rule : test::all_rules) {
        const auto scalar = make_scalar_pretokenizer(rule);
        test::NastyText nasty(2);
        for (int i = 0; i < 4000; ++i) {
            const std::string text = nasty.next(i % 60);
            std::vector<std::string> pretokens;
            u32 begin = 0;
            for (const u32 end : test::reference_ends(rule, text)) {
                pretokens.push_back(text.substr(begin, end - begin));
                begin = end;
            }
            if (split(*scalar, text) != pretokens) {
                FAIL("rule " << static_cast<int>(rule) << ": " << test::escaped(text));
            }
        }
    }
}

TEST_CASE("pre-tokenizers: long runs across the window of the masked ones") {
    for (const PretokenizerRule rule :
         {PretokenizerRule::llama3, PretokenizerRule::qwen2, PretokenizerRule::bloom}) {
        const auto fast = make_pretokenizer(rule);
        const auto scalar = make_scalar_pretokenizer(rule);
        for (const char* unit :
             {"a", "\u00E9", "\u4E00", "\U00010400", " ", "\u3000", "1", "\n", "!"}) {
            for (int n = 4080; n < 4100; ++n) {
                std::string text = "x ";
                for (int i = 0; i < n; ++i) text += unit;
                text += " y";
                if (split(*fast, text) != split(*scalar, text)) {
                    FAIL("rule " << static_cast<int>(rule) << ", " << n << " times " << unit);
                }
            }
        }
    }
}

TEST_CASE("pre-tokenizers: invalid UTF-8 is cut up to its end") {
    test::NastyText nasty(5);
    for (const PretokenizerRule rule : test::all_rules) {
        const auto fast = make_pretokenizer(rule);
        for (int i = 0; i < 2000; ++i) {
            std::string text = nasty.next(60);
            for (char& c : text) {
                if (nasty.draw(10) == 0) c = static_cast<char>(nasty.draw(256));
            }
            split(*fast, text);  // requires that the pre-tokens cover the text
        }
    }
}

TEST_CASE("pre-tokenizers: repetitive text takes linear time") {
    for (const PretokenizerRule rule : test::all_rules) {
        const auto pretokenizer = make_pretokenizer(rule);
        for (const char* unit :
             {"a", "A", "Aa", "A\u4E2D", "\u0301", "\u0301A", " ", " \u0301", "'s", "1", "\u00B2",
              "!", "\u4E00", "\u200B", "\n", " \n", "\u3000a"}) {
            std::string text;
            while (text.size() < 300'000) text += unit;
            u32 ends[512];
            pretokenizer->start(text);
            u32 last = 0;
            while (const i64 n = pretokenizer->next(ends, std::size(ends))) last = ends[n - 1];
            CHECK(last == text.size());  // quadratic time would take an hour
        }
    }
}
