// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/rules/pretoken_rules.hpp"

namespace lm::text {
namespace {

// Returns the length of the contraction ('s 't 're 've 'm 'll 'd) at the start of `text`, or 0.
u32 gpt2_contraction(std::string_view text) {
    if (text.size() < 2 || text[0] != '\'') return 0;
    const char a = text[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (text.size() < 3) return 0;
    const char b = text[2];
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Returns the end of the match of \s+(?!\S)|\s+ at a run of whitespace. This is the end of the run.
// But if a run of several characters is followed by another character, the match does not include
// the last character of the run.
u32 gpt2_space_run_end(const CharReader& chars, u32 begin) {
    u32 end = begin;
    u32 last = begin;
    for (Char c = chars.at(end); c.length > 0 && c.cls == CharClass::space; c = chars.at(end)) {
        last = end;
        end += c.length;
    }
    return end == chars.size() || last == begin ? end : last;
}

bool in_both(CharKind kind) {
    return kind == CharKind::caseless || kind == CharKind::mark;
}

// Returns the end of the match of U*L+ at `at`, or `at` if there is none. U* matches all characters
// of U. If a lower-case letter follows, L+ begins there. Otherwise U* backtracks to the last
// character that is in both U and L, and L+ matches this character.
u32 lower_word_end(const CharReader& chars, const KindTable& kinds, u32 at) {
    u32 end = at;
    u32 after_both = at;
    Char c = chars.at(end);
    for (; c.length > 0; c = chars.at(end)) {
        const CharKind kind = kinds[c.code_point];
        if (kind != CharKind::upper && !in_both(kind)) break;
        end += c.length;
        if (in_both(kind)) after_both = end;
    }
    if (c.length == 0 || kinds[c.code_point] != CharKind::lower) return after_both;
    for (; c.length > 0; c = chars.at(end)) {
        const CharKind kind = kinds[c.code_point];
        if (kind != CharKind::lower && !in_both(kind)) break;
        end += c.length;
    }
    return end;
}

// Returns the end of the match of U+L* at `at`, where U*L+ does not match. In this case U+ matches
// only capitals and L* is empty.
u32 upper_word_end(const CharReader& chars, const KindTable& kinds, u32 at) {
    for (Char c = chars.at(at); c.length > 0 && kinds[c.code_point] == CharKind::upper;
         c = chars.at(at))
        at += c.length;
    return at;
}

// Returns the end of the word at `begin`, or `begin` if there is none.
u32 word_end(const CharReader& chars, u32 begin) {
    const KindTable& kinds = kind_table();
    const Char c = chars.at(begin);
    const bool may_lead =
        c.cls != CharClass::letter && c.cls != CharClass::number && !detail::is_line_end(c);
    const u32 led = begin + c.length;
    for (const auto end_of : {lower_word_end, upper_word_end}) {
        if (may_lead) {
            if (const u32 end = end_of(chars, kinds, led); end > led) return end;
        }
        if (const u32 end = end_of(chars, kinds, begin); end > begin) return end;
    }
    return begin;
}

u32 cased_others_end(const CharReader& chars, u32 begin) {
    u32 end = chars.skip(begin, CharClass::other);
    while (detail::is_line_end(chars.at(end)) || chars.at(end).code_point == '/') ++end;
    return end;
}

}  // namespace

u32 gpt2_pretoken_end(const CharReader& chars, u32 begin) {
    const std::string_view text = chars.text();
    if (const u32 length = gpt2_contraction(text.substr(begin))) return begin + length;
    const u32 word = begin + (text[begin] == ' ' ? 1 : 0);
    const Char c = chars.at(word);
    if (c.length == 0 || c.cls == CharClass::space) return gpt2_space_run_end(chars, begin);
    return chars.skip(word + c.length, c.cls);
}

u32 starcoder_pretoken_end(const CharReader& chars, u32 begin) {
    const Char c = chars.at(begin);
    if (c.cls == CharClass::number) return begin + c.length;
    return digits_pretoken_end(chars, begin);
}

u32 digits_pretoken_end(const CharReader& chars, u32 begin) {
    const CharClass cls = chars.at(begin).cls;
    if (cls == CharClass::number) return chars.skip(begin, CharClass::number);
    if (cls == CharClass::space) {
        const u32 end = chars.skip(begin, CharClass::space);
        if (chars.at(end).cls == CharClass::number) return end;
    }
    return gpt2_pretoken_end(chars, begin);
}

u32 cased_pretoken_end(const CharReader& chars, u32 begin, CasedRule rule) {
    if (const u32 end = word_end(chars, begin); end > begin) {
        const bool contraction = rule.contractions && chars.at(end).code_point == '\'';
        return contraction ? detail::contraction_end(chars, end) : end;
    }
    const Char c = chars.at(begin);
    if (c.cls == CharClass::number) return detail::digits_end(chars, begin, rule.max_digits);
    const u32 first = c.code_point == ' ' ? begin + 1 : begin;
    const Char other = chars.at(first);
    if (other.length > 0 && other.cls == CharClass::other) return cased_others_end(chars, first);
    return detail::space_run_end(chars, begin);
}

}  // namespace lm::text
