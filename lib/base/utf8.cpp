// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.hpp"

#include <simdjson.h>

namespace lm {
namespace {

// The first byte of a sequence determines the length of the sequence and the range of its second
// byte (Unicode standard, table 3-7). The ranges exclude overlong forms, surrogates and code points
// above U+10FFFF.
struct Lead {
    int length;    // 0: not a lead byte
    u8 low, high;  // allowed range of the second byte
};

Lead lead_of(u8 byte) {
    if (byte < 0xC2) return {0, 0, 0};
    if (byte < 0xE0) return {2, 0x80, 0xBF};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte < 0xF0) return {3, 0x80, 0xBF};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte < 0xF4) return {4, 0x80, 0xBF};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

constexpr u32 replacement = 0xFFFD;

}  // namespace

DecodedChar decode_utf8(std::string_view bytes) {
    const auto at = [&](size_t i) { return static_cast<u8>(bytes[i]); };
    const u8 first = at(0);
    if (first < 0x80) return {first, 1, true};
    const Lead lead = lead_of(first);
    if (lead.length == 0) return {replacement, 1, false};
    u32 cp = first & (0x7FU >> lead.length);
    for (int i = 1; i < lead.length; ++i) {
        const u8 low = i == 1 ? lead.low : 0x80;
        const u8 high = i == 1 ? lead.high : 0xBF;
        const auto k = static_cast<size_t>(i);
        // If byte k is invalid, the `i` bytes before it are the maximal invalid subpart (Unicode
        // 3.9, table 3-8).
        if (k >= bytes.size() || at(k) < low || at(k) > high) return {replacement, i, false};
        cp = (cp << 6) | (at(k) & 0x3FU);
    }
    return {cp, lead.length, true};
}

i64 find_invalid_utf8(std::string_view bytes) {
    if (simdjson::validate_utf8(bytes.data(), bytes.size())) return -1;
    for (size_t i = 0; i < bytes.size();) {
        const DecodedChar d = decode_utf8(bytes.substr(i));
        if (!d.valid) return static_cast<i64>(i);
        i += static_cast<size_t>(d.length);
    }
    return -1;
}

void append_utf8(std::string& out, u32 cp) {
    const auto put = [&](u32 byte) { out.push_back(static_cast<char>(byte)); };
    if (cp < 0x80) return put(cp);
    if (cp < 0x800) {
        put(0xC0 | cp >> 6);
    } else if (cp < 0x10000) {
        put(0xE0 | cp >> 12);
        put(0x80 | (cp >> 6 & 0x3F));
    } else {
        put(0xF0 | cp >> 18);
        put(0x80 | (cp >> 12 & 0x3F));
        put(0x80 | (cp >> 6 & 0x3F));
    }
    put(0x80 | (cp & 0x3F));
}

i64 append_utf8_lossy(std::string& out, std::string_view bytes) {
    if (simdjson::validate_utf8(bytes.data(), bytes.size())) {
        out.append(bytes);
        return 0;
    }
    i64 replaced = 0;
    out.reserve(out.size() + bytes.size() + bytes.size() / 16);
    for (size_t i = 0; i < bytes.size();) {
        const size_t begin = i;
        while (i < bytes.size() && static_cast<u8>(bytes[i]) < 0x80) ++i;
        out.append(bytes.substr(begin, i - begin));
        if (i == bytes.size()) break;
        const DecodedChar d = decode_utf8(bytes.substr(i));
        const auto length = static_cast<size_t>(d.length);
        if (d.valid) {
            out.append(bytes.substr(i, length));
        } else {
            append_utf8(out, replacement);
            ++replaced;
        }
        i += length;
    }
    return replaced;
}

}  // namespace lm
