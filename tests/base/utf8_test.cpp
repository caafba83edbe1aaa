// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.hpp"

#include "support/catch.hpp"

using namespace lm;

TEST_CASE("utf8 validation is strict") {
    CHECK(is_valid_utf8(std::string_view("a\0\u00e9\u4e00\U0001F600", 11)));
    CHECK(find_invalid_utf8("ab\xC0\x80") == 2);         // overlong
    CHECK(find_invalid_utf8("\xE0\x9F\xBF") == 0);       // overlong
    CHECK(find_invalid_utf8("\xED\xA0\x80") == 0);       // surrogate
    CHECK(find_invalid_utf8("x\xF4\x90\x80\x80") == 1);  // above U+10FFFF
    CHECK(find_invalid_utf8("abc\xE4\xB8") == 3);        // cut short
}

TEST_CASE("lossy decoding replaces maximal subparts") {
    const auto lossy = [](std::string_view bytes) {
        std::string out;
        append_utf8_lossy(out, bytes);
        return out;
    };
    CHECK(lossy("a\xF1\x80\x80\xE1\x80\xC2"
                "b\x80"
                "c\x80\xBF"
                "d") ==
          "a\uFFFD\uFFFD\uFFFD"
          "b\uFFFD"
          "c\uFFFD\uFFFD"
          "d");  // Unicode 3.9, table 3-8
    CHECK(lossy("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
    CHECK(lossy("\xE4\xB8") == "\uFFFD");
}

TEST_CASE("every code point is the same after encoding and decoding") {
    for (u32 cp = 0; cp < 0x110000; cp += cp < 0x3000 ? 1 : 7) {
        if (cp >= 0xD800 && cp < 0xE000) continue;
        std::string bytes;
        append_utf8(bytes, cp);
        const DecodedChar d = decode_utf8(bytes);
        CHECK((d.valid && d.code_point == cp && static_cast<size_t>(d.length) == bytes.size()));
    }
}
