// SPDX-License-Identifier: Apache-2.0
// The three character classes that pretokenizers ask for: \p{L}, \p{N} and \s (White_Space), as the
// regular expressions of GPT-2 and its descendants mean them.
#pragma once

#include <string_view>

#include "base/types.hpp"

namespace lm::text {

enum class CharClass : u8 { other = 0, letter = 1, number = 2, space = 3 };

// The version of the Unicode Character Database behind class_of: "16.0.0".
std::string_view unicode_version();

class ClassTable {
  public:
    ClassTable();
    // `code_point` below 0x110000.
    CharClass operator[](u32 code_point) const {
        return pages_[page_of_[code_point >> 8]][code_point & 0xFF];
    }

  private:
    u8 page_of_[0x1100];  // by code point / 256
    CharClass pages_[256][256];
};

// Built at the first call; loops take the reference once.
const ClassTable& class_table();

// By utf8proc, whose Unicode version is older than unicode_version(): for the rare flags of added
// tokens and normalizers. A word character is \w as the regular expressions of Rust mean it.
bool is_word_char(u32 code_point);
bool is_mark(u32 code_point);  // \p{M}

bool is_unicode_9_mark(u32 code_point);

// Marks, characters that normal forms change or move, and parts of such, that came after Unicode 9.
bool is_newer_than_unicode_9(u32 code_point);

}  // namespace lm::text
