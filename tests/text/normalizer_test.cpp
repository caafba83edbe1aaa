// SPDX-License-Identifier: Apache-2.0
// Normalizers: long runs of marks, cuts, letters of new versions of Unicode.
#include "text/normalizer/normalizer.hpp"

#include <array>
#include <string>

#include "base/utf8.hpp"
#include "nasty_text.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

TEST_CASE("normal forms: long runs of marks are sorted in O(n log n) time") {
    using Kind = NormalizerStep::Kind;
    // Marks of the classes 230, 220, 202 and 230, in runs for insertion sort and for merge sort.
    // Quadratic time would take an hour.
    for (const int n : {1, 2, 3, 31, 32, 33, 1000, 2'000'000}) {
        std::string text = "z", first = "z", second, last;
        u32 random = 1;
        for (int i = 0; i < n; ++i) {
            random = random * 1664525 + 1013904223;
            const char* mark = std::array{"\u0301", "\u0316", "\u0327", "\u0308"}[random >> 30];
            text += mark;
            (random >> 30 == 2 ? first : random >> 30 == 1 ? second : last) += mark;
        }
        Normalizer::Buffers buffers;
        std::string composed;
        CHECK((Normalizer({{Kind::nfd}}).apply(text, buffers) == first + second + last));
        CHECK((Normalizer({{Kind::nfkd}}).apply(text, buffers) == first + second + last));
        composed = Normalizer({{Kind::nfc}}).apply(text, buffers);
        CHECK((Normalizer({{Kind::nfkc}}).apply(text, buffers) == composed));
        CHECK((Normalizer({{Kind::nfd}}).apply(composed, buffers) == first + second + last));
    }
    // U+FDFA becomes 18 characters.
    Normalizer::Buffers buffers;
    std::string ligatures;
    for (int i = 0; i < 100; ++i) ligatures += "\uFDFA";
    CHECK(Normalizer({{Kind::nfkd}}).apply(ligatures, buffers).size() == 100 * 33);
}

TEST_CASE("normal forms: U+11A7 is kept after a Hangul syllable") {
    using Kind = NormalizerStep::Kind;
    Normalizer::Buffers buffers;
    for (const Kind kind : {Kind::nfc, Kind::nfkc}) {
        const Normalizer normalizer({{kind}});
        CHECK(normalizer.apply("\uAC00\u11A7x\uAC00\u11A8", buffers) == "\uAC00\u11A7x\uAC01");
        CHECK(normalizer.apply("\u1100\u1161\u11A7", buffers) == "\uAC00\u11A7");
    }
    const Normalizer decomposing({{Kind::nfd}});
    CHECK(decomposing.apply("\uAC00\u11A7", buffers) == "\u1100\u1161\u11A7");
}

TEST_CASE("lowercase: as in Unicode 17") {
    const Normalizer lower({{NormalizerStep::Kind::lowercase}});
    Normalizer::Buffers buffers;
    CHECK(
        lower.apply("A\u0130\u1C89\uA7CB\uA7DC\U00010D50\U00010D65\U00016EB8\U00016EB9", buffers) ==
        "ai\u0307\u1C8A\u0264\u019B\U00010D70\U00010D85\U00016ED3\U00016EB9");
}

TEST_CASE("normal forms: cutting a text does not change its normal form") {
    using Kind = NormalizerStep::Kind;
    for (const Kind kind : {Kind::nfc, Kind::nfd, Kind::nfkc, Kind::nfkd, Kind::lowercase}) {
        const Normalizer normalizer({{kind}});
        Normalizer::Buffers buffers, whole_buffers;
        // The normalizer cuts long runs, but not the short ones of `item`.
        test::NastyText nasty(static_cast<u64>(kind));
        for (int i = 0; i < 20; ++i) {
            std::string parts, text;
            for (int k = 0; k < 400; ++k) {
                const std::string item = "\u4E00" + nasty.next(12);
                text += item;
                parts += normalizer.apply(item, buffers);
            }
            if (normalizer.apply(text, whole_buffers) != parts) FAIL(test::escaped(text));
        }
    }
}

TEST_CASE("normal forms: a mark moves before a long run of marks of a higher class") {
    using Kind = NormalizerStep::Kind;
    const auto many = [](int n) {
        std::string marks;
        for (int i = 0; i < n; ++i) marks += "\u0345";  // class 240, the highest
        return marks;
    };
    const std::string long_run = many(2500);  // long enough to be cut
    for (const Kind kind : {Kind::nfc, Kind::nfd, Kind::nfkc, Kind::nfkd}) {
        const Normalizer normalizer({{kind}});
        Normalizer::Buffers buffers;
        std::string text;
        int n_moved = 0;
        for (u32 cp = 0x80; cp < 0x110000; ++cp) {
            if (cp >= 0xD800 && cp < 0xE000) continue;
            text = "z" + many(2);
            append_utf8(text, cp);
            std::string expected(normalizer.apply(text, buffers));
            const size_t at = expected.find(many(2));
            if (at == 1) continue;  // `cp` does not move before the marks
            ++n_moved;
            REQUIRE(at != expected.npos);
            expected.replace(at, 4, long_run);
            text.replace(1, 4, long_run);
            if (normalizer.apply(text, buffers) != expected) FAIL(cp);
        }
        CHECK(n_moved > 700);
    }
}

TEST_CASE("long texts: normalization in parts equals normalization of the whole") {
    using Kind = NormalizerStep::Kind;
    test::NastyText nasty(1);
    std::string text;
    while (text.size() < 5'000'000) text += nasty.next(12);
    for (const char* item : {"e\u0301", "\u304B\u3099", "\u1100\u1161\u11A8", "\uAC00\u11A8",
                             "\uE000", "\u4E00\u0301"})
        for (int i = 0; i < 300'000; ++i) text += item;
    for (const Kind kind : {Kind::nfc, Kind::nfd, Kind::nfkc, Kind::nfkd, Kind::strip_accents}) {
        const Normalizer by_parts({{kind}, {Kind::lowercase}});
        const Normalizer at_once({{kind}, {Kind::lowercase}, {Kind::prepend}});  // the empty text
        Normalizer::Buffers buffers, others;
        CHECK((by_parts.apply(text, buffers) == at_once.apply(text, others)));
    }
}
