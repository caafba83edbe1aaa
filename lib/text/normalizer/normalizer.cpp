// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::text {
namespace {

using Kind = NormalizerStep::Kind;

constexpr auto longest = static_cast<size_t>(max_text_bytes);

template <typename Use>
void for_each_char(std::string_view text, Use use) {
    for (size_t i = 0; i < text.size();) {
        const DecodedChar c = decode_utf8(text.substr(i));
        use(c.code_point);
        i += static_cast<size_t>(c.length);
    }
}

// Capitals of Unicode 16 and 17 that older versions of utf8proc lack.
struct Lowered {
    u32 first, last, to;  // the lower case of first + i is to + i
};
constexpr Lowered newer_capitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

u32 lower_of(u32 cp) {
    const auto at = std::ranges::lower_bound(newer_capitals, cp, {}, &Lowered::last);
    if (at != std::end(newer_capitals) && at->first <= cp) return at->to + (cp - at->first);
    return static_cast<u32>(utf8proc_tolower(static_cast<i32>(cp)));
}

// Converts each character to lower case like Rust's char::to_lowercase. Only the lower case of
// U+0130 has two characters.
void lowercase(std::string_view text, std::string& out) {
    out.reserve(out.size() + text.size());
    for (size_t i = 0; i < text.size();) {
        const auto byte = static_cast<u8>(text[i]);
        if (byte < 0x80) {
            out += static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + 'a' - 'A' : byte);
            ++i;
            continue;
        }
        const DecodedChar c = decode_utf8(text.substr(i));
        i += static_cast<size_t>(c.length);
        if (c.code_point == 0x130) {
            out += "i\u0307";
        } else {
            append_utf8(out, lower_of(c.code_point));
        }
    }
}

void strip_accents(std::string_view text, std::string& out) {
    for_each_char(text, [&](u32 cp) {
        if (!is_unicode_9_mark(cp)) append_utf8(out, cp);
    });
}

std::string_view strip(std::string_view text, bool left, bool right) {
    size_t begin = text.size();
    size_t end = 0;
    for (size_t i = 0; i < text.size();) {
        const DecodedChar c = decode_utf8(text.substr(i));
        const size_t next = i + static_cast<size_t>(c.length);
        if (class_table()[c.code_point] != CharClass::space) {
            begin = std::min(begin, i);
            end = next;
        }
        i = next;
    }
    if (!left) begin = 0;
    if (!right) end = text.size();
    return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// Throws TextTooLong if the result of replace() is too long. Call it before replace() allocates
// memory.
void check_replaced_length(std::string_view text, const NormalizerStep& step) {
    const size_t from = step.pattern.size(), to = step.content.size();
    if (to <= from || text.size() + text.size() / from * (to - from) <= longest) return;
    size_t length = text.size();
    for (size_t at = text.find(step.pattern); at != text.npos && length <= longest;
         at = text.find(step.pattern, at + from))
        length += to - from;
    if (length > longest) throw TextTooLong();
}

void replace(std::string_view text, const NormalizerStep& step, std::string& out) {
    check_replaced_length(text, step);
    for (;;) {
        const size_t at = text.find(step.pattern);
        out.append(text.substr(0, at));
        if (at == std::string_view::npos) return;
        out.append(step.content);
        text.remove_prefix(at + step.pattern.size());
    }
}

// Returns whether any text may be cut before the character without a change of the result, for all
// sequences of steps without strip, replace and prepend. Each normal form of such a character
// begins with the character itself or a starter, and neither the character nor its lower case is
// the second character of a composition. True for ASCII, kana, CJK, Hangul syllables and private
// characters.
bool stands_alone(u32 cp) {
    return cp < 0x80 || (cp >= 0x3041 && cp <= 0x3096) || (cp >= 0x30A1 && cp <= 0x30FA) ||
           (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xAC00 && cp <= 0xD7A3) ||
           (cp >= 0xE000 && cp <= 0xF8FF);
}

// Returns the first offset >= `at` where the text may be cut, or its size.
size_t place_to_cut(std::string_view text, size_t at) {
    while (at < text.size() && (static_cast<u8>(text[at]) & 0xC0) == 0x80) ++at;
    while (at < text.size()) {
        const DecodedChar c = decode_utf8(text.substr(at));
        if (stands_alone(c.code_point)) return at;
        at += static_cast<size_t>(c.length);
    }
    return text.size();
}

void apply_step(const NormalizerStep& step, std::string_view text, std::string& out) {
    switch (step.kind) {
        case Kind::nfc:
            return append_normal_form(NormalForm::nfc, text, out);
        case Kind::nfd:
            return append_normal_form(NormalForm::nfd, text, out);
        case Kind::nfkc:
            return append_normal_form(NormalForm::nfkc, text, out);
        case Kind::nfkd:
            return append_normal_form(NormalForm::nfkd, text, out);
        case Kind::lowercase:
            return lowercase(text, out);
        case Kind::strip_accents:
            return strip_accents(text, out);
        case Kind::strip:
            out.append(strip(text, step.left, step.right));
            return;
        case Kind::replace:
            return replace(text, step, out);
        case Kind::prepend:
            if (!text.empty()) out.append(step.content);
            out.append(text);
            return;
    }
}

}  // namespace

Normalizer::Normalizer(std::vector<NormalizerStep> steps)
    : steps_(std::move(steps)),
      is_local_(std::ranges::none_of(steps_, [](const NormalizerStep& step) {
          return step.kind == Kind::strip || step.kind == Kind::replace ||
                 step.kind == Kind::prepend;
      })) {}

std::string_view Normalizer::apply(std::string_view text, Buffers& buffers) const {
    constexpr size_t window = size_t{1} << 20;
    if (steps_.empty() || !is_local_ || text.size() <= window) return apply_steps(text, buffers);
    buffers.whole.clear();
    buffers.whole.reserve(text.size() + text.size() / 16);
    while (!text.empty()) {
        const std::string_view part = text.substr(0, place_to_cut(text, window));
        buffers.whole.append(apply_steps(part, buffers));
        check_normalized_length(buffers.whole);
        text.remove_prefix(part.size());
    }
    return buffers.whole;
}

std::string_view Normalizer::apply_steps(std::string_view text, Buffers& buffers) const {
    for (const NormalizerStep& step : steps_) {
        buffers.next.clear();
        buffers.next.reserve(text.size() + text.size() / 16);
        apply_step(step, text, buffers.next);
        check_normalized_length(buffers.next);
        buffers.text.swap(buffers.next);
        text = buffers.text;
    }
    return text;
}

}  // namespace lm::text
