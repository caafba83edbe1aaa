// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/unescape_in_place.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "base/types.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lm::data {
namespace {

struct EscapeTables {
    // Indexed by the character after the backslash: the decoded character; 0 for \u and unknown
    // escapes.
    std::array<char, 256> simple{};
    std::array<u8, 256> hex{};  // value of a hexadecimal digit; 0xFF for any other character
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

// Returns the UTF-16 unit of \uXXXX at `p`, or -1.
i32 unit_at(const char* p) {
    if (p[0] != '\\' || p[1] != 'u') return -1;
    i32 unit = 0;
    for (int i = 2; i < 6; ++i) {
        const u8 digit = tables.hex[at(p, i)];
        if (digit > 15) return -1;
        unit = unit << 4 | digit;
    }
    return unit;
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

// Decodes the escape at `p` to `out` and returns the end of the escape; nullptr when the escape is
// invalid or half of a surrogate pair. An escape is longer than the decoded text, so `out` may be
// `p`.
const char* decode_escape(const char* p, char*& out) {
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

// Returns the first quote, backslash or control character at or after `p`.
const char* first_special(const char* p) {
#if defined(__SSE2__)
    for (;; p += 16) {
        const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
        const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1F)), block);
        const __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
        const __m128i backslash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
        const auto special = static_cast<u32>(
            _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash))));
        if (special != 0) return p + std::countr_zero(special);
    }
#else
    while (*p != '"' && *p != '\\' && at(p, 0) >= 0x20) ++p;
    return p;
#endif
}

}  // namespace

const char* find_string_end(const char* p) {
    char scratch[4];
    for (;;) {
        p = first_special(p);
        if (*p == '"') return p;
        if (*p != '\\') return nullptr;
        char* out = scratch;
        p = decode_escape(p, out);
        if (p == nullptr) return nullptr;
    }
}

std::size_t unescape_in_place(char* begin, const char* end) {
    char* out = begin;
    for (const char* p = begin;;) {
        const void* found = std::memchr(p, '\\', static_cast<size_t>(end - p));
        const char* const escape = found != nullptr ? static_cast<const char*>(found) : end;
        const auto n = static_cast<size_t>(escape - p);
        std::memmove(out, p, n);
        out += n;
        if (escape == end) return static_cast<size_t>(out - begin);
        p = decode_escape(escape, out);
    }
}

}  // namespace lm::data
