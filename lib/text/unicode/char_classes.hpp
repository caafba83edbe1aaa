// SPDX-License-Identifier: Apache-2.0
// What pre-tokenizers ask of characters: the classes \p{L}, \p{N} and \s (White_Space) that the
// regular expressions of GPT-2 and its descendants are made of, and finer kinds for some of these.
#pragma once

#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::text {

enum class CharClass : u8 { other = 0, letter = 1, number = 2, space = 3 };

// upper: \p{Lu} and \p{Lt}, lower: \p{Ll}, caseless: the other letters, mark: \p{M}, punctuation:
// \p{P}, symbol: \p{S}.
enum class CharKind : u8 {
    other,
    number,
    space,
    upper,
    lower,
    caseless,
    mark,
    punctuation,
    symbol
};

// The version of the Unicode Character Database behind the tables: "16.0.0".
std::string_view unicode_version();

// A value for every code point.
template <typename Value>
class CodePointTable {
  public:
    explicit CodePointTable(const std::vector<Value>& flat);  // by code point below 0x110000
    Value operator[](u32 code_point) const {
        return pages_[page_of_[code_point >> 8]][code_point & 0xFF];
    }

  private:
    u8 page_of_[0x1100];  // by code point / 256
    Value pages_[256][256];
};
using ClassTable = CodePointTable<CharClass>;
using KindTable = CodePointTable<CharKind>;

// Built at the first call; loops take the reference once.
const ClassTable& class_table();
const ClassTable& class_table_with_marks();  // where marks are letters
const KindTable& kind_table();

// What Hugging Face's pre-tokenizer Punctuation means by it: ASCII's and \p{P} of Unicode 8.
bool is_split_punctuation(u32 code_point);

// A word character, \w as the regular expressions of Rust mean it: what single_word of added tokens
// asks for.
bool is_word_char(u32 code_point);

bool is_unicode_9_mark(u32 code_point);

// Marks, characters that normal forms change or move, and parts of such, that came after Unicode 9.
bool is_newer_than_unicode_9(u32 code_point);

}  // namespace lm::text
