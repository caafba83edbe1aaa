// SPDX-License-Identifier: Apache-2.0
#include "text/split_rules.hpp"

namespace lm::text {
namespace {

bool is_line_end(const Char& c) {
    return c.length == 1 && (c.code_point == '\r' || c.code_point == '\n');
}

// The letter that `c` is without regard to case; U+017F is an s too.
u32 folded(const Char& c) {
    if (c.code_point == 0x17F) return 's';
    return c.code_point >= 'A' && c.code_point <= 'Z' ? c.code_point + 32 : c.code_point;
}

// End of the contraction that begins at the apostrophe `begin`, or `begin`.
u32 contraction_end(const CharReader& chars, u32 begin) {
    const Char a = chars.at(begin + 1);
    const u32 first = folded(a);
    if (a.length == 0) return begin;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 1 + a.length;
    const Char b = chars.at(begin + 1 + a.length);
    const bool two = (first == 'r' && folded(b) == 'e') || (first == 'v' && folded(b) == 'e') ||
                     (first == 'l' && folded(b) == 'l');
    return two && b.length > 0 ? begin + 1 + a.length + b.length : begin;
}

u32 digits_end(const CharReader& chars, u32 begin, int most) {
    u32 end = begin;
    for (int n = 0; n < most; ++n) {
        const Char c = chars.at(end);
        if (c.length == 0 || c.cls != CharClass::number) break;
        end += c.length;
    }
    return end;
}

// A run of whitespace: up to its last line end if it has one; else all of it at the end of the
// text, all but the last character before something else, and a lone character as it is.
u32 space_run_end(const CharReader& chars, u32 begin) {
    u32 end = begin;
    u32 last = begin;
    u32 behind_line_end = begin;
    for (Char c = chars.at(end); c.length > 0 && c.cls == CharClass::space; c = chars.at(end)) {
        last = end;
        end += c.length;
        if (is_line_end(c)) behind_line_end = end;
    }
    if (behind_line_end > begin) return behind_line_end;
    return end == chars.size() || last == begin ? end : last;
}

u32 others_end(const CharReader& chars, u32 begin) {
    u32 end = chars.skip(begin, CharClass::other);
    while (is_line_end(chars.at(end))) ++end;
    return end;
}

}  // namespace

u32 llama3_piece_end(const CharReader& chars, u32 begin, int most_digits) {
    const Char c = chars.at(begin);
    if (c.code_point == '\'') {
        if (const u32 end = contraction_end(chars, begin); end > begin) return end;
    }
    if (c.cls == CharClass::letter) return chars.skip(begin, CharClass::letter);
    if (c.cls == CharClass::number) return digits_end(chars, begin, most_digits);
    const Char following = chars.at(begin + c.length);
    const bool word = following.length > 0 && following.cls == CharClass::letter;
    if (word && !is_line_end(c)) return chars.skip(begin + c.length, CharClass::letter);
    if (c.cls == CharClass::other) return others_end(chars, begin);
    const bool others = following.length > 0 && following.cls == CharClass::other;
    if (c.code_point == ' ' && others) return others_end(chars, begin + 1);
    return space_run_end(chars, begin);
}

namespace {

bool in_bloom_word(const Char& c) {
    if (c.length == 0 || c.cls == CharClass::space) return false;
    switch (c.code_point) {
        case '(':
        case ')':
        case '|':
        case '.':
        case ',':
        case '!':
        case '?':
        case 0x2026:
        case 0x3002:
        case 0xFF0C:
        case 0x3001:
        case 0x964:
        case 0x6D4:
        case 0x60C:
            return false;
        default:
            return true;
    }
}

// Whether a match begins at `at`; `*first` is where its first word character stands.
bool bloom_match(const CharReader& chars, u32 at, u32* first) {
    const Char c = chars.at(at);
    *first = c.code_point == ' ' && c.length == 1 ? at + 1 : at;
    return in_bloom_word(*first == at ? c : chars.at(*first));
}

}  // namespace

u32 bloom_piece_end(const CharReader& chars, u32 begin) {
    u32 at = begin;
    u32 first = begin;
    if (bloom_match(chars, begin, &first)) {
        for (at = first; in_bloom_word(chars.at(at));) at += chars.at(at).length;
        return at;
    }
    while (at < chars.size() && !bloom_match(chars, at, &first)) at += chars.at(at).length;
    return at;
}

}  // namespace lm::text
