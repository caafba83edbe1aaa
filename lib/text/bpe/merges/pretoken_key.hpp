// SPDX-License-Identifier: Apache-2.0
// A short pre-token as a value of 16 bytes. Equal keys mean equal pre-tokens.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

namespace detail {
// For each length: a mask of that number of bytes, and a value with the length in the last byte.
struct KeyMasks {
    struct Halves {
        u64 low, high;
    };
    alignas(16) Halves bytes[17];
    alignas(16) Halves tag[17];
    constexpr KeyMasks() : bytes{}, tag{} {
        for (u32 n = 0; n <= 16; ++n) {
            bytes[n].low = n >= 8 ? ~u64{0} : (u64{1} << (8 * n)) - 1;
            bytes[n].high = n <= 8 ? 0 : n == 16 ? ~u64{0} : (u64{1} << (8 * (n - 8))) - 1;
            tag[n].high = (n == 16 ? u64{0xFF} : u64{n}) << 56;
        }
    }
};
inline constexpr KeyMasks key_masks;
}  // namespace detail

// The key of a pre-token of up to 15 bytes has its bytes, zeros, and the length in the 16th byte.
// The key of a longer pre-token has its first 15 bytes and 0xFF, so it differs from the key of
// every short pre-token.
struct alignas(16) PretokenKey {
    static constexpr u32 longest = 15;

    u64 low, high;

    // Returns the key of a pre-token. 16 bytes must be readable at `pretoken`, even if `length` is
    // smaller.
    static PretokenKey load(const char* pretoken, u32 length) {
        PretokenKey words;
        std::memcpy(&words, pretoken, 16);
        const u32 n = std::min(length, 16U);
        return {words.low & detail::key_masks.bytes[n].low,
                (words.high & detail::key_masks.bytes[n].high) | detail::key_masks.tag[n].high};
    }
    static PretokenKey of(std::string_view pretoken) {
        char padded[16] = {};
        std::memcpy(padded, pretoken.data(), std::min<size_t>(pretoken.size(), 16));
        return load(padded, static_cast<u32>(pretoken.size()));
    }

    // Compares both halves with one branch. Two branches would be unpredictable.
    bool operator==(const PretokenKey& other) const {
        return ((low ^ other.low) | (high ^ other.high)) == 0;
    }
    u32 length() const { return static_cast<u32>(high >> 56); }
    bool is_short() const { return length() <= longest; }
    u8 byte(u32 i) const { return static_cast<u8>((i < 8 ? low : high) >> (8 * (i & 7))); }
    std::string_view text() const { return {reinterpret_cast<const char*>(this), length()}; }
    bool is_ascii() const { return ((low | (high << 8)) & 0x8080'8080'8080'8080ULL) == 0; }
};

}  // namespace lm::text
