// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/char_classes.hpp"

namespace lm::text {
namespace {

using Kind = NormalizerStep::Kind;

// Whether a text may be cut before this character and its parts normalized alone. What it becomes
// must begin with a starter that composes with nothing before it (UAX #15, section 9.1): up to
// Unicode 9 those that do are marks, or vowels and trailing consonants of Hangul.
bool may_cut_before(u32 cp, utf8proc_option_t options) {
    std::array<i32, 32> chars;  // of the longest decomposition, 18
    int boundary = 0;           // of no use here
    const auto n = utf8proc_decompose_char(static_cast<i32>(cp), chars.data(), std::ssize(chars),
                                           options, &boundary);
    if (n < 1 || n > std::ssize(chars)) return false;
    const i32 first = chars[0];
    if (first >= 0x1160 && first <= 0x11FF) return false;
    const auto* property = utf8proc_get_property(first);
    return property->combining_class == 0 && property->category != UTF8PROC_CATEGORY_MN &&
           property->category != UTF8PROC_CATEGORY_MC && property->category != UTF8PROC_CATEGORY_ME;
}

constexpr auto longest = static_cast<size_t>(max_text_bytes);

void check_length(const std::string& text) {
    if (text.size() > longest) throw TextTooLong();
}

int options_of(Kind kind) {
    switch (kind) {
        case Kind::nfc:
            return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
        case Kind::nfd:
            return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
        case Kind::nfkc:
            return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
        default:
            return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    }
}

// The decomposition of every character into `out`, which grows as it must; how many there are.
size_t decompose(std::string_view run, utf8proc_option_t options, std::vector<i32>& out) {
    size_t n = 0;
    for (size_t i = 0; i < run.size();) {
        const DecodedChar c = decode_utf8(run.substr(i));
        const auto room = static_cast<utf8proc_ssize_t>(out.size() - n);
        int boundary = 0;  // of no use here
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

// Marks whose combining class stands above the bits of the code point, stably by class.
constexpr int class_shift = 21;

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

// UAX #15, canonical ordering. utf8proc's own takes quadratic time.
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

// One run into `buffer`, kept from run to run.
void normalize_run(std::string_view run, utf8proc_option_t options, std::vector<i32>& buffer,
                   std::string& out) {
    if (buffer.size() < run.size() + 4) buffer.resize(run.size() + 4);
    const size_t n_chars = decompose(run, options, buffer);
    if (n_chars == buffer.size()) buffer.push_back(0);  // the next call ends it with a zero
    order_marks(std::span(buffer).first(n_chars));
    const auto n = utf8proc_reencode(buffer.data(), static_cast<utf8proc_ssize_t>(n_chars),
                                     options);  // in place, as UTF-8
    LM_CHECK(n >= 0, utf8proc_errmsg(n));
    out.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(n));
}

constexpr size_t long_run = 4096;  // bytes: from here on it is cut where that is possible

// Feeds a text to utf8proc in runs that do not touch each other. Runs of ASCII are in every normal
// form; only their last character may go with what follows.
class NormalForm {
  public:
    NormalForm(Kind kind, std::string& out)
        : options_(static_cast<utf8proc_option_t>(options_of(kind))), out_(out) {}

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
        if (is_newer_than_unicode_9(c.code_point)) {
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
        check_length(out_);
        begin_ = end;
        is_wide_ = false;
    }

    utf8proc_option_t options_;
    std::string& out_;
    std::vector<i32> buffer_;
    size_t begin_ = 0;      // of the run that is not yet in out_
    bool is_wide_ = false;  // it has characters beyond ASCII
};

template <typename Use>
void for_each_char(std::string_view text, Use use) {
    for (size_t i = 0; i < text.size();) {
        const DecodedChar c = decode_utf8(text.substr(i));
        use(c.code_point);
        i += static_cast<size_t>(c.length);
    }
}

// Capitals of Unicode 16 and 17, which utf8proc may be too old for.
struct Lowered {
    u32 first, last, to;  // the lower case of the first; those behind it likewise
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

// As Rust's char::to_lowercase, character by character: the one character whose lower case is two
// is U+0130.
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

// Before memory is taken for what would be too long.
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

// Before such a character a text may be cut whatever local steps there are: it begins every normal
// form of itself, is no second one of a composition, and whatever case becomes of it is not either.
// ASCII, kana, CJK, Hangul, private characters.
bool stands_alone(u32 cp) {
    return cp < 0x80 || (cp >= 0x3041 && cp <= 0x3096) || (cp >= 0x30A1 && cp <= 0x30FA) ||
           (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xAC00 && cp <= 0xD7A3) ||
           (cp >= 0xE000 && cp <= 0xF8FF);
}

// The first place behind `at` bytes where the text may be cut, or its end.
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
        case Kind::nfd:
        case Kind::nfkc:
        case Kind::nfkd:
            return NormalForm(step.kind, out).add(text);
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
        check_length(buffers.whole);
        text.remove_prefix(part.size());
    }
    return buffers.whole;
}

std::string_view Normalizer::apply_steps(std::string_view text, Buffers& buffers) const {
    for (const NormalizerStep& step : steps_) {
        buffers.next.clear();
        buffers.next.reserve(text.size() + text.size() / 16);
        apply_step(step, text, buffers.next);
        check_length(buffers.next);
        buffers.text.swap(buffers.next);
        text = buffers.text;
    }
    return text;
}

}  // namespace lm::text
