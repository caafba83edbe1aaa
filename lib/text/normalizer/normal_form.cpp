// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer/normal_form.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/utf8.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::text {
namespace {

// Returns whether a text may be cut before this character so that its parts can be normalized
// separately. The decomposition of the character must begin with a starter that does not compose
// with a preceding character (UAX #15, section 9.1). Up to Unicode 9, only marks, and vowels and
// trailing consonants of Hangul, compose with a preceding character.
bool may_cut_before(u32 cp, utf8proc_option_t options) {
    std::array<i32, 32> chars;  // the longest decomposition has 18 characters (U+FDFA)
    int boundary = 0;           // for grapheme clusters, unused
    const auto n = utf8proc_decompose_char(static_cast<i32>(cp), chars.data(), std::ssize(chars),
                                           options, &boundary);
    if (n < 1 || n > std::ssize(chars)) return false;
    const i32 first = chars[0];
    if (first >= 0x1160 && first <= 0x11FF) return false;
    const auto* property = utf8proc_get_property(first);
    return property->combining_class == 0 && property->category != UTF8PROC_CATEGORY_MN &&
           property->category != UTF8PROC_CATEGORY_MC && property->category != UTF8PROC_CATEGORY_ME;
}

utf8proc_option_t options_of(NormalForm form) {
    const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
    const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                          (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                          (compatible ? UTF8PROC_COMPAT : 0));
}

// Writes the decomposition of every character to `out`, which grows as needed. Returns the number
// of code points written.
size_t decompose(std::string_view run, utf8proc_option_t options, std::vector<i32>& out) {
    size_t n = 0;
    for (size_t i = 0; i < run.size();) {
        const DecodedChar c = decode_utf8(run.substr(i));
        const auto room = static_cast<utf8proc_ssize_t>(out.size() - n);
        int boundary = 0;  // for grapheme clusters, unused
        const auto size = utf8proc_decompose_char(static_cast<i32>(c.code_point), out.data() + n,
                                                  room, options, &boundary);
        LM_CHECK(size >= 0, utf8proc_errmsg(size));
        if (size > room) {
            out.resize(2 * out.size() + static_cast<size_t>(size));
            continue;
        }
        n += static_cast<size_t>(size);
        i += static_cast<size_t>(c.length);
    }
    return n;
}

// During sorting, a mark is combining class << class_shift | code point.
constexpr int class_shift = 21;

// Sorts marks by class. The sort is stable, because the order of marks of the same class has a
// meaning.
void sort_marks(std::span<i32> marks) {
    constexpr size_t few = 32;
    const auto before = [](i32 a, i32 b) { return (a >> class_shift) < (b >> class_shift); };
    if (marks.size() > few) return std::stable_sort(marks.begin(), marks.end(), before);
    for (size_t i = 1; i < marks.size(); ++i) {
        const i32 mark = marks[i];
        size_t at = i;
        for (; at > 0 && before(mark, marks[at - 1]); --at) marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

// The canonical ordering algorithm (Unicode standard, D109): sorts each run of characters of
// nonzero combining class. utf8proc's own implementation takes quadratic time.
void order_marks(std::span<i32> chars) {
    const auto class_at = [&](size_t i) -> i32 {
        return i < chars.size() ? utf8proc_get_property(chars[i])->combining_class : 0;
    };
    for (size_t i = 0; i < chars.size(); ++i) {
        const size_t begin = i;
        for (i32 cls = class_at(i); cls > 0; cls = class_at(++i)) chars[i] |= cls << class_shift;
        const auto marks = chars.subspan(begin, i - begin);
        sort_marks(marks);
        for (i32& mark : marks) mark &= (1 << class_shift) - 1;
    }
}

// Appends the normal form of one run. `buffer` is memory that is reused for the next run.
void normalize_run(std::string_view run, utf8proc_option_t options, std::vector<i32>& buffer,
                   std::string& out) {
    if (buffer.size() < run.size() + 4) buffer.resize(run.size() + 4);
    const size_t n_chars = decompose(run, options, buffer);
    if (n_chars == buffer.size())
        buffer.push_back(0);  // utf8proc_reencode writes a zero at the end
    order_marks(std::span(buffer).first(n_chars));
    const auto n = utf8proc_reencode(buffer.data(), static_cast<utf8proc_ssize_t>(n_chars),
                                     options);  // converts to UTF-8 in place
    LM_CHECK(n >= 0, utf8proc_errmsg(n));
    out.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(n));
}

// U+11A7 is the code point before the trailing consonants of Hangul, U+11A8 to U+11C2. It composes
// with no character. But utf8proc 2.8 drops it after a syllable without a trailing consonant.
constexpr u32 before_trailing_consonants = 0x11A7;

bool stays_alone(u32 cp) {
    return is_newer_than_unicode_9(cp) || cp == before_trailing_consonants;
}

// A run with more bytes than this is cut at the next character that may_cut_before() allows, so
// that the buffer stays small.
constexpr size_t long_run = 4096;

// Normalizes a text in runs that can be normalized separately. ASCII is in every normal form and is
// copied. Only the last character of a run of ASCII can compose with the next character.
class RunNormalizer {
  public:
    RunNormalizer(NormalForm form, std::string& out) : options_(options_of(form)), out_(out) {}

    void add(std::string_view text) {
        for (size_t i = 0; i < text.size();) {
            const auto byte = static_cast<u8>(text[i]);
            i = byte < 0x80 ? add_ascii(text, i) : add_wide(text, i);
        }
        flush(text, text.size());
    }

  private:
    size_t add_ascii(std::string_view text, size_t at) {
        flush(text, at);
        size_t end = at + 1;
        while (end < text.size() && static_cast<u8>(text[end]) < 0x80) ++end;
        out_.append(text.substr(at, end - 1 - at));
        begin_ = end - 1;
        return end;
    }

    size_t add_wide(std::string_view text, size_t at) {
        const DecodedChar c = decode_utf8(text.substr(at));
        const size_t end = at + static_cast<size_t>(c.length);
        if (stays_alone(c.code_point)) {
            flush(text, at);
            out_.append(text.substr(at, end - at));
            begin_ = end;
            return end;
        }
        if (at - begin_ > long_run && may_cut_before(c.code_point, options_)) flush(text, at);
        is_wide_ = true;
        return end;
    }

    void flush(std::string_view text, size_t end) {
        const std::string_view run = text.substr(begin_, end - begin_);
        is_wide_ ? normalize_run(run, options_, buffer_, out_) : void(out_.append(run));
        check_normalized_length(out_);
        begin_ = end;
        is_wide_ = false;
    }

    utf8proc_option_t options_;
    std::string& out_;
    std::vector<i32> buffer_;
    size_t begin_ = 0;      // offset of the current run, which is not in out_ yet
    bool is_wide_ = false;  // the run has characters other than ASCII
};

}  // namespace

void append_normal_form(NormalForm form, std::string_view text, std::string& out) {
    RunNormalizer(form, out).add(text);
}

void check_normalized_length(const std::string& text) {
    if (static_cast<i64>(text.size()) > max_text_bytes) throw TextTooLong();
}

}  // namespace lm::text
