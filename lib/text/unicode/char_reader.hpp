// SPDX-License-Identifier: Apache-2.0
// Reads the characters of a text and their classes, for the scalar pre-tokenizers.
#pragma once

#include <string_view>

#include "base/utf8.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::text {

struct Char {
    u32 code_point;  // U+FFFD for an invalid byte
    u32 length;      // 0 at the end of the text
    CharClass cls;
};

class CharReader {
  public:
    explicit CharReader(std::string_view text = {}, const ClassTable& classes = class_table())
        : text_(text), classes_(&classes) {}

    std::string_view text() const { return text_; }
    u32 size() const { return static_cast<u32>(text_.size()); }

    Char at(u32 position) const {
        if (position >= text_.size()) return {0, 0, CharClass::other};
        const auto byte = static_cast<u8>(text_[position]);
        if (byte < 0x80) return {byte, 1, (*classes_)[byte]};
        const DecodedChar d = decode_utf8(text_.substr(position));
        if (!d.valid) return {0xFFFD, 1, CharClass::other};
        return {d.code_point, static_cast<u32>(d.length), (*classes_)[d.code_point]};
    }

    // Returns the first position >= `position` whose character is not of class `cls`.
    u32 skip(u32 position, CharClass cls) const {
        for (Char c = at(position); c.length > 0 && c.cls == cls; c = at(position))
            position += c.length;
        return position;
    }

    u32 skip_letters_and_numbers(u32 position) const {
        for (Char c = at(position); c.length > 0 && is_letter_or_number(c.cls); c = at(position))
            position += c.length;
        return position;
    }

  private:
    static bool is_letter_or_number(CharClass cls) {
        return cls == CharClass::letter || cls == CharClass::number;
    }

    std::string_view text_;
    const ClassTable* classes_;
};

}  // namespace lm::text
