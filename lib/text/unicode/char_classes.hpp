// SPDX-License-Identifier: Apache-2.0
// Character classes for pre-tokenizers: \p{L}, \p{N} and \s (White_Space), which the regular
// expressions of GPT-2 and its successors use. Some of these expressions also need the finer
// CharKind.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::text {

enum class CharClass : u8 { other = 0, letter = 1, number = 2, space = 3 };

// upper is \p{Lu} and \p{Lt}, lower is \p{Ll}, caseless is all other letters, mark is \p{M},
// punctuation is \p{P}, symbol is \p{S}.
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

// A table with one value for each code point, in two levels. Equal pages of 256 code points are
// stored only once.
template <typename Value>
class CodePointTable {
  public:
    explicit CodePointTable(const std::vector<Value>& flat);  // indexed by code point < 0x110000
    Value operator[](u32 code_point) const {
        return pages_[page_of_[code_point >> 8]][code_point & 0xFF];
    }

  private:
    u8 page_of_[0x1100];  // indexed by code point / 256
    Value pages_[256][256];
};
using ClassTable = CodePointTable<CharClass>;
using KindTable = CodePointTable<CharKind>;

// Each of these functions builds its table in the first call. Call it before a loop and keep the
// reference.
const ClassTable& class_table();
const ClassTable& class_table_with_marks();  // marks count as letters
const KindTable& kind_table();

// Returns whether Hugging Face's pre-tokenizer Punctuation splits at the character: ASCII
// punctuation and symbols, and \p{P} of Unicode 8.
bool is_split_punctuation(u32 code_point);

// Returns whether the character is \w in the regular expressions of Rust. The flag single_word of
// added tokens depends on it.
bool is_word_char(u32 code_point);

bool is_unicode_9_mark(u32 code_point);

// Returns whether the character is newer than Unicode 9 and matters to normal forms: it is a mark,
// or normal forms change or reorder it, or it is a part of a character that normal forms change.
bool is_newer_than_unicode_9(u32 code_point);

}  // namespace lm::text
