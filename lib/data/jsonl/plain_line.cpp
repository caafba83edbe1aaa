// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/plain_line.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "data/jsonl/x86/unescape_avx512.hpp"

#if defined(__SSE2__)
#include <immintrin.h>

namespace lm::data {
namespace {

constexpr size_t block_bytes = 16;
constexpr size_t longest_copy = size_t{16} << 20;
constexpr size_t longest_key = 32;

struct EscapeTables {
    std::array<char, 256> simple{};  // what \x stands for; 0: nothing, or \u
    std::array<u8, 256> hex{};       // 0xFF: no digit
    constexpr EscapeTables() {
        simple['"'] = '"', simple['\\'] = '\\', simple['/'] = '/', simple['b'] = '\b';
        simple['f'] = '\f', simple['n'] = '\n', simple['r'] = '\r', simple['t'] = '\t';
        hex.fill(0xFF);
        for (u8 i = 0; i < 10; ++i) hex[static_cast<size_t>('0' + i)] = i;
        for (u8 i = 0; i < 6; ++i) {
            hex[static_cast<size_t>('a' + i)] = static_cast<u8>(10 + i);
            hex[static_cast<size_t>('A' + i)] = static_cast<u8>(10 + i);
        }
    }
};
constexpr EscapeTables tables;

u8 at(const char* p, int i) {
    return static_cast<u8>(p[i]);
}

// The number of \uXXXX at `p`, or -1.
i32 unit_at(const char* p) {
    if (p[0] != '\\' || p[1] != 'u') return -1;
    const u32 a = tables.hex[at(p, 2)], b = tables.hex[at(p, 3)];
    if ((a | b) > 15) return -1;
    const u32 c = tables.hex[at(p, 4)], d = tables.hex[at(p, 5)];
    if ((c | d) > 15) return -1;
    return static_cast<i32>(a << 12 | b << 8 | c << 4 | d);
}

char* put_utf8(char* out, u32 cp) {
    const auto put = [&](u32 byte) { *out++ = static_cast<char>(byte); };
    if (cp < 0x80) return put(cp), out;
    if (cp < 0x800) return put(0xC0 | cp >> 6), put(0x80 | (cp & 63)), out;
    if (cp < 0x10000) {
        put(0xE0 | cp >> 12), put(0x80 | (cp >> 6 & 63)), put(0x80 | (cp & 63));
        return out;
    }
    put(0xF0 | cp >> 18), put(0x80 | (cp >> 12 & 63)), put(0x80 | (cp >> 6 & 63));
    put(0x80 | (cp & 63));
    return out;
}

// Decodes the escape at `p` to `out`; returns what follows it, nullptr when it is not right.
const char* take_escape(const char* p, char*& out) {
    if (const char c = tables.simple[at(p, 1)]; c != 0) {
        *out++ = c;
        return p + 2;
    }
    const i32 unit = unit_at(p);
    if (unit < 0) return nullptr;
    auto cp = static_cast<u32>(unit);
    p += 6;
    if (cp >= 0xD800 && cp < 0xE000) {
        const i32 low = unit_at(p);
        if (cp >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return nullptr;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (static_cast<u32>(low) - 0xDC00);
        p += 6;
    }
    out = put_utf8(out, cp);
    return p;
}

enum class Mode { check, copy, in_place };

struct Scan {
    const char* end = nullptr;  // the closing quote; nullptr: the string is not right
    char* out_end = nullptr;
    int beyond_ascii = 0;
};

__m128i load(const char* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// Bits of the bytes that end a run of ordinary characters: quotes, backslashes, control characters.
u32 special_bits(__m128i block) {
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1F)), block);
    const __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    const __m128i backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    return static_cast<u32>(
        _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash))));
}

// The string from `p` to its closing quote, decoded to `out`; in_place: `out` is not behind `p`.
template <Mode mode>
Scan scan(const char* p, char* out) {
    Scan result;
    char scratch[4];
    __m128i seen = _mm_setzero_si128();
    for (;;) {
        const __m128i block = load(p);
        seen = _mm_or_si128(seen, block);
        const u32 special = special_bits(block);
        if (mode == Mode::copy || (mode == Mode::in_place && special == 0))
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out), block);
        if (special == 0) {
            p += block_bytes;
            out += block_bytes;
            continue;
        }
        const auto n = static_cast<size_t>(std::countr_zero(special));
        if (mode == Mode::in_place) std::memmove(out, p, n);
        p += n;
        out += n;
        if (*p == '"') break;
        if (*p != '\\') return result;
        char* const to = mode == Mode::check ? scratch : out;
        char* behind = to;
        p = take_escape(p, behind);
        if (p == nullptr) return result;
        out += behind - to;
    }
    result.end = p;
    result.out_end = out;
    result.beyond_ascii = _mm_movemask_epi8(seen);
    return result;
}

const char* skip_spaces(const char* p) {
    while (*p == ' ' || *p == '\t' || *p == '\r') ++p;
    return p;
}

// scan<Mode::copy> with the wide steps; what those do not know is done one by one.
Scan scan_wide(const char* p, char* out) {
    Scan result;
    for (;;) {
        const Unescaped done = unescape_wide(p, out);
        result.beyond_ascii |= done.beyond_ascii ? 1 : 0;
        p = done.next;
        out = done.out;
        if (*p == '"') break;
        if (*p != '\\') return result;
        p = take_escape(p, out);
        if (p == nullptr) return result;
    }
    result.end = p;
    result.out_end = out;
    return result;
}

// Where the first escape is, or the quote or whatever else ends the string before one.
const char* first_special(const char* p, int* beyond_ascii) {
    __m128i seen = _mm_setzero_si128();
    for (;; p += block_bytes) {
        const __m128i block = load(p);
        seen = _mm_or_si128(seen, block);
        if (const u32 special = special_bits(block); special != 0) {
            *beyond_ascii = _mm_movemask_epi8(seen);
            return p + std::countr_zero(special);
        }
    }
}

}  // namespace

PlainLineReader::PlainLineReader(const std::string& key, bool wide) : wide_(wide) {
    const auto is_plain = [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; };
    if (key.size() <= longest_key && std::ranges::all_of(key, is_plain)) opening_ = '"' + key + '"';
}

std::optional<std::string_view> PlainLineReader::take(std::string_view& rest) {
    if (opening_.empty()) return std::nullopt;
    const char* p = skip_spaces(rest.data());
    if (*p != '{') return std::nullopt;
    p = skip_spaces(p + 1);
    if (std::memcmp(p, opening_.data(), opening_.size()) != 0) return std::nullopt;
    p = skip_spaces(p + opening_.size());
    if (*p != ':') return std::nullopt;
    p = skip_spaces(p + 1);
    if (*p != '"') return std::nullopt;

    const char* const text = p + 1;
    int beyond_ascii = 0;
    const char* const special = first_special(text, &beyond_ascii);
    const auto n_before = static_cast<size_t>(special - text);
    const bool escaped = *special == '\\';
    const bool long_rest = rest.size() > longest_copy;
    Scan found;
    if (!escaped) {
        if (*special != '"') return std::nullopt;
        found.end = special;
    } else if (long_rest) {
        found = scan<Mode::check>(special, nullptr);
    } else {
        if (capacity_ < rest.size()) {
            capacity_ = rest.size() + rest.size() / 4;
            buffer_ = std::make_unique_for_overwrite<char[]>(capacity_ + 64);
        }
        std::memcpy(buffer_.get(), text, n_before);
        char* const out = buffer_.get() + n_before;
        found = wide_ ? scan_wide(special, out) : scan<Mode::copy>(special, out);
    }
    if (found.end == nullptr) return std::nullopt;

    p = skip_spaces(found.end + 1);
    if (*p != '}') return std::nullopt;
    p = skip_spaces(p + 1);
    const char* const end = rest.data() + rest.size();
    if (p < end && *p != '\n') return std::nullopt;
    const auto n_source = static_cast<size_t>(found.end - text);
    if ((beyond_ascii | found.beyond_ascii) != 0 && !simdjson::validate_utf8(text, n_source))
        return std::nullopt;

    rest.remove_prefix(std::min(rest.size(), static_cast<size_t>(p + 1 - rest.data())));
    if (!escaped) return std::string_view(text, n_source);
    if (!long_rest)
        return std::string_view(buffer_.get(), static_cast<size_t>(found.out_end - buffer_.get()));
    // The memory is a LineChunk's: ours to change.
    char* const begin = const_cast<char*>(text);
    found = scan<Mode::in_place>(special, begin + n_before);
    return std::string_view(begin, static_cast<size_t>(found.out_end - begin));
}

}  // namespace lm::data

#else

namespace lm::data {

PlainLineReader::PlainLineReader(const std::string&, bool wide) : wide_(wide) {}

std::optional<std::string_view> PlainLineReader::take(std::string_view&) {
    return std::nullopt;
}

}  // namespace lm::data

#endif
