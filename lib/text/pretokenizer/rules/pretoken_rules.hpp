// SPDX-License-Identifier: Apache-2.0
// The rules of pre-tokenizers as functions over code points, written by hand instead of regular
// expressions. Each function returns the end of the pre-token that begins at `begin` < text size. A
// walk over a text takes linear time. Tests compare the vectorised pre-tokenizers with these
// functions. `Reader` is CharReader, or a faster class with the same members.
#pragma once

#include "text/unicode/char_reader.hpp"

namespace lm::text {
namespace detail {

inline bool is_line_end(const Char& c) {
    return c.length == 1 && (c.code_point == '\r' || c.code_point == '\n');
}

// Returns the lower case of `c` if it is ASCII; "s" for U+017F, which (?i:) treats as an "s";
// otherwise `c`.
inline u32 folded(const Char& c) {
    if (c.code_point == 0x17F) return 's';
    return c.code_point >= 'A' && c.code_point <= 'Z' ? c.code_point + 32 : c.code_point;
}

// There is an apostrophe at `begin`. Returns the end of the contraction there, or `begin`.
template <typename Reader>
u32 contraction_end(const Reader& chars, u32 begin) {
    const Char a = chars.at(begin + 1);
    const u32 first = folded(a);
    if (a.length == 0) return begin;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 1 + a.length;
    const Char b = chars.at(begin + 1 + a.length);
    const bool two = (first == 'r' && folded(b) == 'e') || (first == 'v' && folded(b) == 'e') ||
                     (first == 'l' && folded(b) == 'l');
    return two && b.length > 0 ? begin + 1 + a.length + b.length : begin;
}

template <typename Reader>
u32 digits_end(const Reader& chars, u32 begin, int most) {
    u32 end = begin;
    for (int n = 0; n < most; ++n) {
        const Char c = chars.at(end);
        if (c.length == 0 || c.cls != CharClass::number) break;
        end += c.length;
    }
    return end;
}

// Returns the end of the match of \s*[\r\n]+|\s+(?!\S)|\s+ at a run of whitespace. If the run has
// line ends, the match ends after the last of them. Otherwise the match ends where the run ends.
// But if the run has several characters and text follows the run, the match ends one character
// earlier.
template <typename Reader>
u32 space_run_end(const Reader& chars, u32 begin) {
    u32 end = begin;
    u32 last = begin;
    u32 after_line_end = begin;
    for (Char c = chars.at(end); c.length > 0 && c.cls == CharClass::space; c = chars.at(end)) {
        last = end;
        end += c.length;
        if (is_line_end(c)) after_line_end = end;
    }
    if (after_line_end > begin) return after_line_end;
    return end == chars.size() || last == begin ? end : last;
}

template <typename Reader>
u32 others_end(const Reader& chars, u32 begin) {
    u32 end = chars.skip(begin + chars.at(begin).length, CharClass::other);
    while (is_line_end(chars.at(end))) ++end;
    return end;
}

inline bool in_bloom_word(const Char& c) {
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

// Returns whether a match of BLOOM's pattern (see bloom_pretoken_end()) begins at `at`, and sets
// `*first` to the position of the match's first word character.
template <typename Reader>
bool bloom_match(const Reader& chars, u32 at, u32* first) {
    const Char c = chars.at(at);
    *first = c.code_point == ' ' && c.length == 1 ? at + 1 : at;
    return in_bloom_word(*first == at ? c : chars.at(*first));
}

// Returns the end of the BLOOM word whose first word character is at `at`. The reader skips letters
// and numbers fast, and most word characters are letters or numbers.
template <typename Reader>
u32 bloom_word_end(const Reader& chars, u32 at) {
    for (;;) {
        at = chars.skip_letters_and_numbers(at);
        const Char c = chars.at(at);
        if (!in_bloom_word(c)) return at;
        at += c.length;
    }
}

}  // namespace detail

// The pattern of Llama-3 and GPT-4 (max_digits 3) and of Qwen2 (max_digits 1):
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
template <typename Reader>
u32 llama3_pretoken_end(const Reader& chars, u32 begin, int max_digits) {
    const Char c = chars.at(begin);
    if (c.code_point == '\'') {
        if (const u32 end = detail::contraction_end(chars, begin); end > begin) return end;
    }
    if (c.cls == CharClass::letter) return chars.skip(begin + c.length, CharClass::letter);
    if (c.cls == CharClass::number) return detail::digits_end(chars, begin, max_digits);
    const Char following = chars.at(begin + c.length);
    const bool word = following.length > 0 && following.cls == CharClass::letter;
    if (word && !detail::is_line_end(c)) return chars.skip(begin + c.length, CharClass::letter);
    if (c.cls == CharClass::other) return detail::others_end(chars, begin);
    const bool others = following.length > 0 && following.cls == CharClass::other;
    if (c.code_point == ' ' && others) return detail::others_end(chars, begin + 1);
    return detail::space_run_end(chars, begin);
}

// BLOOM:  ?[^(\s|[.,!?…。，、।۔،])]+ where the inner brackets are a nested class. So the class is
// everything except whitespace, "(", ")", "|" and the listed punctuation. The text between two
// matches is also a pre-token.
template <typename Reader>
u32 bloom_pretoken_end(const Reader& chars, u32 begin) {
    u32 first = begin;
    if (detail::bloom_match(chars, begin, &first)) return detail::bloom_word_end(chars, first);
    u32 at = begin;
    while (at < chars.size() && !detail::bloom_match(chars, at, &first)) at += chars.at(at).length;
    return at;
}

// GPT-2: see PretokenizerRule::gpt2.
u32 gpt2_pretoken_end(const CharReader& chars, u32 begin);

// StarCoder and SmolLM: each character of class number is a pre-token. The text between two numbers
// is cut as a separate text, so the last space before a number is in one pre-token with the other
// spaces.
u32 starcoder_pretoken_end(const CharReader& chars, u32 begin);
// Like starcoder_pretoken_end(), but each run of characters of class number is one pre-token.
u32 digits_pretoken_end(const CharReader& chars, u32 begin);

struct CasedRule {
    bool contractions;  // whether a word includes the contraction after it
    int max_digits;     // most characters in a pre-token of numbers
};

// The pattern of o200k and Tekken,
// with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C the contractions:
// [^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
u32 cased_pretoken_end(const CharReader& chars, u32 begin, CasedRule rule);

}  // namespace lm::text
