// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/gpt2_rule.hpp"

namespace lm::text {
namespace {

// Length of the contraction ('s 't 're 've 'm 'll 'd) that `text` begins with, or 0.
u32 contraction(std::string_view text) {
    if (text.size() < 2 || text[0] != '\'') return 0;
    const char a = text[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (text.size() < 3) return 0;
    const char b = text[2];
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// A run of whitespace: all of it at the end of the text, else all but its last character, which is
// left to the next piece; a lone character is a piece.
u32 space_run_end(const CharReader& chars, u32 begin) {
    u32 end = begin;
    u32 last = begin;
    for (Char c = chars.at(end); c.length > 0 && c.cls == CharClass::space; c = chars.at(end)) {
        last = end;
        end += c.length;
    }
    return end == chars.size() || last == begin ? end : last;
}

}  // namespace

u32 gpt2_piece_end(const CharReader& chars, u32 begin) {
    const std::string_view text = chars.text();
    if (const u32 length = contraction(text.substr(begin))) return begin + length;
    const u32 word = begin + (text[begin] == ' ' ? 1 : 0);
    const Char c = chars.at(word);
    if (c.length == 0 || c.cls == CharClass::space) return space_run_end(chars, begin);
    return chars.skip(word + c.length, c.cls);
}

u32 starcoder_piece_end(const CharReader& chars, u32 begin) {
    const Char c = chars.at(begin);
    if (c.cls == CharClass::number) return begin + c.length;
    return digits_piece_end(chars, begin);
}

u32 digits_piece_end(const CharReader& chars, u32 begin) {
    const CharClass cls = chars.at(begin).cls;
    if (cls == CharClass::number) return chars.skip(begin, CharClass::number);
    if (cls == CharClass::space) {
        const u32 end = chars.skip(begin, CharClass::space);
        if (chars.at(end).cls == CharClass::number) return end;
    }
    return gpt2_piece_end(chars, begin);
}

}  // namespace lm::text
