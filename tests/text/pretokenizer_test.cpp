// SPDX-License-Identifier: Apache-2.0
// Pretokenizers against golden splits (python regex and Hugging Face agree on them), and the fast
// implementation against the portable one on random text.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "nasty_text.hpp"
#include "support/slow_split.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/pretokenizer/x86/gpt2_pretokenizer.hpp"

using namespace lm;
using namespace lm::text;

namespace {

std::vector<std::string> split(Splitter& splitter, const std::string& text) {
    std::vector<std::string> pieces;
    splitter.start(text);
    u32 ends[128];
    u32 begin = 0;
    while (const i64 n = splitter.next(ends, 128)) {
        for (i64 i = 0; i < n; ++i) {
            pieces.push_back(text.substr(begin, ends[i] - begin));
            begin = ends[i];
        }
    }
    REQUIRE(begin == text.size());
    return pieces;
}

struct Golden {
    const char* text;
    std::vector<std::string> pieces;
};

// Given by Hugging Face tokenizers 0.23.
struct RuleGolden {
    SplitRule rule;
    const char* text;
    std::vector<std::string> pieces;
};

const std::vector<RuleGolden> golden_others = {
    {SplitRule::o200k, "HelloWorld's ABCdef XMLHttp", {"Hello", "World's", " ABCdef", " XMLHttp"}},
    {SplitRule::o200k, "A\u4E2DBc!\n/x 1234", {"A\u4E2DBc", "!\n/", "x", " ", "123", "4"}},
    {SplitRule::tekken, "Don't 12", {"Don", "'t", " ", "1", "2"}},
    {SplitRule::qwen3_5, "e\u0301a !\u0301b", {"e\u0301a", " !", "\u0301b"}},
    {SplitRule::deepseek_v3,
     "don't 12345 \u4E2D\u3042a.b \u20AC\n\n",
     {"don", "'t", " ", "123", "45", " ", "\u4E2D\u3042", "a", ".b", " \u20AC\n\n"}},
    {SplitRule::deepseek_coder,
     "a  b.c 12\r\n\u4E2D",
     {"a", " ", " b", ".", "c", " ", "1", "2", "\r", "\n", "\u4E2D"}},
    {SplitRule::falcon,
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

std::vector<std::unique_ptr<Splitter>> gpt2_splitters() {
    std::vector<std::unique_ptr<Splitter>> all;
    all.push_back(make_scalar_splitter(SplitRule::gpt2));
    if (has_vector_splitter()) all.push_back(make_vector_gpt2_splitter());
    if (has_wide_splitter()) all.push_back(make_wide_gpt2_splitter());
    return all;
}

}  // namespace

TEST_CASE("gpt2 golden splits") {
    for (const Golden& golden : golden_gpt2) {
        INFO(golden.text);
        for (const auto& splitter : gpt2_splitters())
            CHECK(split(*splitter, golden.text) == golden.pieces);
    }
}

TEST_CASE("every processor's gpt2 splitter cuts where the portable one does") {
    const auto splitters = gpt2_splitters();
    test::NastyText nasty(11);
    for (int i = 0; i < 20000; ++i) {
        // Of few kinds of characters too: blocks with a piece at nearly every byte.
        std::string text = nasty.next(i % 400);
        if (i % 4 == 0) text = std::string(text.size(), "a1' "[i % 16 / 4]);
        if (i % 4 == 1)
            for (size_t k = 0; k < text.size(); ++k) text[k] = "a1'!"[nasty.draw(4)];
        const auto pieces = split(*splitters[0], text);
        for (const auto& splitter : splitters) {
            if (split(*splitter, text) != pieces) FAIL(test::escaped(text));
        }
    }
}

TEST_CASE("golden splits of other pretokenizers") {
    for (const RuleGolden& golden : golden_others) {
        INFO(golden.text);
        CHECK(split(*make_splitter(golden.rule), golden.text) == golden.pieces);
    }
}

TEST_CASE("the fast splitters cut where the portable ones do") {
    for (const SplitRule rule :
         {SplitRule::gpt2, SplitRule::llama3, SplitRule::qwen2, SplitRule::bloom}) {
        const auto fast = make_splitter(rule);
        const auto scalar = make_scalar_splitter(rule);
        test::NastyText nasty(1);
        for (int i = 0; i < 20000; ++i) {
            // Now and then longer than the window of the masked ones.
            const std::string text = nasty.next(i % 1000 == 0 ? 9000 : i % 400);
            if (split(*fast, text) != split(*scalar, text)) {
                FAIL("rule " << static_cast<int>(rule) << ": " << test::escaped(text));
            }
        }
    }
}

TEST_CASE("the portable splitters cut where the regular expressions do") {
    for (const SplitRule rule : test::all_rules) {
        const auto scalar = make_scalar_splitter(rule);
        test::NastyText nasty(2);
        for (int i = 0; i < 4000; ++i) {
            const std::string text = nasty.next(i % 60);
            std::vector<std::string> pieces;
            u32 begin = 0;
            for (const u32 end : test::slow_ends(rule, text)) {
                pieces.push_back(text.substr(begin, end - begin));
                begin = end;
            }
            if (split(*scalar, text) != pieces) {
                FAIL("rule " << static_cast<int>(rule) << ": " << test::escaped(text));
            }
        }
    }
}

TEST_CASE("long runs across the windows") {
    for (const SplitRule rule : {SplitRule::llama3, SplitRule::qwen2, SplitRule::bloom}) {
        const auto fast = make_splitter(rule);
        const auto scalar = make_scalar_splitter(rule);
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

TEST_CASE("broken UTF-8 is cut somehow, and to the end") {
    test::NastyText nasty(5);
    for (const SplitRule rule : test::all_rules) {
        const auto fast = make_splitter(rule);
        for (int i = 0; i < 2000; ++i) {
            std::string text = nasty.next(60);
            for (char& c : text) {
                if (nasty.draw(10) == 0) c = static_cast<char>(nasty.draw(256));
            }
            split(*fast, text);  // requires that the pieces make up the text
        }
    }
}

TEST_CASE("splitting any text of one kind is linear") {
    for (const SplitRule rule : test::all_rules) {
        const auto splitter = make_splitter(rule);
        for (const char* unit :
             {"a", "A", "Aa", "A\u4E2D", "\u0301", "\u0301A", " ", " \u0301", "'s", "1", "\u00B2",
              "!", "\u4E00", "\u200B", "\n", " \n", "\u3000a"}) {
            std::string text;
            while (text.size() < 300'000) text += unit;
            u32 ends[512];
            splitter->start(text);
            u32 last = 0;
            while (const i64 n = splitter->next(ends, std::size(ends))) last = ends[n - 1];
            CHECK(last == text.size());  // in time: quadratic work would take an hour
        }
    }
}
