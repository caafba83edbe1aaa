// SPDX-License-Identifier: Apache-2.0
#include "text/unicode/char_classes.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

TEST_CASE("character classes: counts of Unicode 16") {
    const ClassTable& table = class_table();
    int counts[4] = {};
    for (u32 cp = 0; cp < 0x110000; ++cp) ++counts[static_cast<int>(table[cp])];
    CHECK(counts[1] == 141028);
    CHECK(counts[2] == 1911);
    CHECK(counts[3] == 25);
    CHECK(table[0xB2] == CharClass::number);
    CHECK(table[0x301] == CharClass::other);
    int kinds[9] = {};
    for (u32 cp = 0; cp < 0x110000; ++cp) ++kinds[static_cast<int>(kind_table()[cp])];
    // The numbers of \p{Lu} and \p{Lt}, \p{Ll}, \p{M}, \p{P}, \p{S} in Hugging Face tokenizers
    // 0.23.
    CHECK(kinds[static_cast<int>(CharKind::upper)] == 1858 + 31);
    CHECK(kinds[static_cast<int>(CharKind::lower)] == 2258);
    CHECK(kinds[static_cast<int>(CharKind::mark)] == 2501);
    CHECK(kinds[static_cast<int>(CharKind::punctuation)] == 855);
    CHECK(kinds[static_cast<int>(CharKind::symbol)] == 8514);
    int split = 0;
    for (u32 cp = 0; cp < 0x110000; ++cp) split += is_split_punctuation(cp) ? 1 : 0;
    CHECK(split == 726);
}

TEST_CASE("word characters equal those of Hugging Face tokenizers") {
    i64 n = 0, sum = 0, hash = 0;
    for (u32 cp = 0; cp < 0x110000; ++cp) {
        if (!is_word_char(cp)) continue;
        ++n;
        sum += cp;
        hash = (hash * 31 + cp) % 1'000'000'007;
    }
    // The characters next to which Hugging Face tokenizers 0.21.4 finds no single_word token.
    CHECK(n == 144667);
    CHECK(sum == 15'621'645'388);
    CHECK(hash == 226512796);
    for (const u32 cp : {0x5Fu, 0x203Fu, 0x200Du, 0x660u, 0x2160u, 0x24B6u, 0x301u, 0x1C89u})
        CHECK(is_word_char(cp));  // U+1C89 is new in Unicode 16
    for (const u32 cp : {0x20u, 0x2Du, 0xB2u, 0x2460u, 0x1F600u, 0x200Bu, 0xD800u, 0x10FFFFu})
        CHECK_FALSE(is_word_char(cp));
}
