// SPDX-License-Identifier: Apache-2.0
// Computes the character classes of 64 bytes of UTF-8 as bit masks. Bit i stands for byte i, and
// every byte of a character has the class of the character. The vectorised pre-tokenizers use it,
// with AVX2 or, in functions whose names end with _avx512, with AVX-512.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "text/unicode/char_classes.hpp"

#define LM_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define LM_AVX2_INLINE __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"), always_inline)) inline

#define LM_AVX512 \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi2")))
#define LM_AVX512_INLINE                                                                       \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi2"), \
                   always_inline)) inline

namespace lm::text {

inline constexpr u32 block_bytes = 64;
inline constexpr u32 reach = 3;  // most bytes of a character after the block in which it begins

struct Masks {
    u64 letter, number, space;
    u64 blank;  // U+0020
    u64 apostrophe;
    u64 space2, space3;  // first bytes of whitespace characters of two and three bytes
};

// The class bits of the bytes that the last character of this block has in the next block.
struct Spill {
    u64 letter = 0, number = 0, space = 0;
};

// Returns bit 7 of each of the 64 bytes.
LM_AVX2_INLINE u64 bits_of(__m256i low, __m256i high) {
    const auto a = static_cast<u32>(_mm256_movemask_epi8(low));
    const auto b = static_cast<u32>(_mm256_movemask_epi8(high));
    return a | static_cast<u64>(b) << 32;
}

LM_AVX2_INLINE u64 equal_bits(__m256i low, __m256i high, char c) {
    const __m256i wanted = _mm256_set1_epi8(c);
    return bits_of(_mm256_cmpeq_epi8(low, wanted), _mm256_cmpeq_epi8(high, wanted));
}

// Returns all ones in the bytes that are in [first, first + n). AVX2 has no unsigned comparison, so
// a <= b is computed as min(a, b) == a.
LM_AVX2_INLINE __m256i in_range(__m256i bytes, char first, char n) {
    const __m256i shifted = _mm256_sub_epi8(bytes, _mm256_set1_epi8(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(shifted, _mm256_set1_epi8(static_cast<char>(n - 1))),
                             shifted);
}

// Returns all ones in the ASCII letters. The bit 0x20 maps capitals to lower case, and no other
// byte to a letter.
LM_AVX2_INLINE __m256i letters(__m256i bytes) {
    return in_range(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), 'a', 26);
}

// Classifies a text block by block. The last character may extend into the next block. spill_ keeps
// its class bits for that block.
class CharMasker {
  public:
    CharMasker() : classes_(class_table()) {}

    // Forgets the previous block. The first byte of the next block must begin a character.
    void restart() { spill_ = {}; }

    // Classifies the block at `begin`. The bytes after the end of the text count as whitespace.
    LM_AVX2 Masks classify_at(const u8* text, u32 size, u32 begin) {
        Tail tail;
        return classify(tail.block_at(text, size, begin));
    }

    LM_AVX512 Masks classify_at_avx512(const u8* text, u32 size, u32 begin) {
        Tail tail;
        return classify_avx512(tail.block_at(text, size, begin));
    }

  private:
    // A padded copy of the last bytes of the text, used when a block and the `reach` bytes after
    // the block extend beyond the end.
    class Tail {
      public:
        LM_AVX2_INLINE const u8* block_at(const u8* text, u32 size, u32 begin) {
            if (begin + sizeof bytes_ <= size) return text + begin;
            std::memset(bytes_, ' ', sizeof bytes_);
            // With a constant bound the compiler inlines memcpy. A call would clobber the registers
            // that hold the constants of the loops.
            std::memcpy(bytes_, text + begin, std::min<size_t>(sizeof bytes_, size - begin));
            return bytes_;
        }

      private:
        u8 bytes_[block_bytes + reach];
    };

    LM_AVX2_INLINE Masks classify(const u8* block) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
        Masks m;
        m.letter = bits_of(letters(low), letters(high));
        m.number = bits_of(in_range(low, '0', 10), in_range(high, '0', 10));
        m.blank = equal_bits(low, high, ' ');
        m.space = bits_of(in_range(low, '\t', 5), in_range(high, '\t', 5)) | m.blank;
        m.apostrophe = equal_bits(low, high, '\'');
        m.space2 = m.space3 = 0;
        const u64 beyond_ascii = bits_of(low, high);
        if ((beyond_ascii | spill_.letter | spill_.number | spill_.space) != 0)
            classify_beyond_ascii(block, beyond_ascii, m);
        return m;
    }

    LM_AVX512_INLINE Masks classify_avx512(const u8* block) {
        const __m512i bytes = _mm512_loadu_si512(block);
        Masks m;
        m.letter = in_range_avx512(_mm512_or_si512(bytes, _mm512_set1_epi8(0x20)), 'a', 26);
        m.number = in_range_avx512(bytes, '0', 10);
        m.blank = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(' '));
        m.space = in_range_avx512(bytes, '\t', 5) | m.blank;
        m.apostrophe = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\''));
        m.space2 = m.space3 = 0;
        const u64 beyond_ascii = _mm512_movepi8_mask(bytes);
        if ((beyond_ascii | spill_.letter | spill_.number | spill_.space) != 0)
            classify_beyond_ascii(block, beyond_ascii, m);
        return m;
    }

    LM_AVX512_INLINE static u64 in_range_avx512(__m512i bytes, char first, char n) {
        return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(first)),
                                      _mm512_set1_epi8(n));
    }

    // Classifies the characters beyond ASCII. Vector comparisons find the characters whose first
    // byte implies a letter: 0xD0 and 0xD1 (Cyrillic, U+0400 to U+047F), 0xE5 to 0xE9 (U+5000 to
    // U+9FFF), 0xEB and 0xEC (U+B000 to U+CFFF). classify_one() looks up each of the other
    // characters.
    LM_AVX2 void classify_beyond_ascii(const u8* block, u64 beyond_ascii, Masks& m) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
        m.letter |= spill_.letter;
        m.number |= spill_.number;
        m.space |= spill_.space;
        spill_ = {};
        // Lead bytes are 11xxxxxx, and continuation bytes 10xxxxxx. movemask reads bit 7, so the
        // shift moves bit 6 there.
        const u64 second_bit = bits_of(_mm256_slli_epi16(low, 1), _mm256_slli_epi16(high, 1));
        u64 leads = beyond_ascii & second_bit;
        const u64 two = bits_of(in_range(low, '\xD0', 2), in_range(high, '\xD0', 2));
        const u64 three = bits_of(sure_three(low), sure_three(high));
        m.letter |= two | two << 1 | three | three << 1 | three << 2;
        spill_.letter = two >> 63 | three >> 63 | three >> 62;
        for (leads &= ~(two | three); leads != 0; leads &= leads - 1) {
            classify_one(block, static_cast<u32>(_tzcnt_u64(leads)), m);
        }
    }

    // Returns all ones in the first bytes that imply a letter of three bytes.
    LM_AVX2_INLINE static __m256i sure_three(__m256i bytes) {
        return _mm256_or_si256(in_range(bytes, '\xE5', 5), in_range(bytes, '\xEB', 2));
    }

    // Looks up the character whose first byte is at `at`, and sets the class bits of all its bytes,
    // in this block and in spill_. Invalid UTF-8 may get any class, but causes no access outside of
    // the block and the `reach` bytes after it.
    LM_AVX2_INLINE void classify_one(const u8* block, u32 at, Masks& m) {
        const u8* p = block + at;
        const u32 first = p[0];
        const u32 length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        u32 cp;
        if (length == 2) {
            cp = (first & 0x1F) << 6 | (p[1] & 0x3FU);
        } else if (length == 3) {
            cp = (first & 0x0F) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU);
        } else {
            cp = (first & 0x07) << 18 | (p[1] & 0x3FU) << 12 | (p[2] & 0x3FU) << 6 | (p[3] & 0x3FU);
        }
        const CharClass cls = cp < 0x110000 ? classes_[cp] : CharClass::other;
        const u64 bytes = (u64{1} << length) - 1;
        const u64 here = bytes << at;
        // A shift by 64 bits would be undefined.
        const u64 there = at == 0 ? 0 : bytes >> (block_bytes - at);
        const u64 is_letter = -static_cast<u64>(cls == CharClass::letter);
        const u64 is_number = -static_cast<u64>(cls == CharClass::number);
        m.letter |= here & is_letter;
        spill_.letter |= there & is_letter;
        m.number |= here & is_number;
        spill_.number |= there & is_number;
        if (cls != CharClass::space) return;
        m.space |= here;
        spill_.space |= there;
        (length == 2 ? m.space2 : m.space3) |= u64{1} << at;
    }

    const ClassTable& classes_;
    Spill spill_;  // from the previous block into the current one
};

}  // namespace lm::text

#endif
