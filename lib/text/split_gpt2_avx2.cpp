// SPDX-License-Identifier: Apache-2.0
// Every byte of a character carries the character's class. With L, N, W, O the bits of letters,
// numbers, whitespace and the rest, a piece starts
//   where a run of L, N or O begins, unless U+0020 stands before it;
//   where a run of W begins;
//   at the last character of a run of W that something follows.
// Behind the end of the text stands imaginary whitespace, so that a last run of W stays whole. Then
// a start at an apostrophe is looked at for contractions, which move the start behind it.
#include "text/split_gpt2_avx2.hpp"

#include "base/error.hpp"
#include "text/unicode.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define LM_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define LM_AVX2_INLINE __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"), always_inline)) inline

namespace lm::text {
namespace {

constexpr u32 block_bytes = 64;
constexpr u32 reach = 3;  // bytes of a character beyond the block it begins in

struct Masks {
    u64 letter, number, space;
    u64 blank;  // U+0020
    u64 apostrophe;
    u64 space2, space3;  // first bytes of whitespace characters of two and three bytes
};

// Class bits of characters that reach into the next block.
struct Spill {
    u64 letter = 0, number = 0, space = 0;
};

LM_AVX2_INLINE u64 bits_of(__m256i low, __m256i high) {
    const auto a = static_cast<u32>(_mm256_movemask_epi8(low));
    const auto b = static_cast<u32>(_mm256_movemask_epi8(high));
    return a | static_cast<u64>(b) << 32;
}

// Bytes in [first, first + n): all ones where true.
LM_AVX2_INLINE __m256i in_range(__m256i bytes, char first, char n) {
    const __m256i shifted = _mm256_sub_epi8(bytes, _mm256_set1_epi8(first));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(shifted, _mm256_set1_epi8(static_cast<char>(n - 1))),
                             shifted);
}

LM_AVX2_INLINE __m256i letters(__m256i bytes) {
    return in_range(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), 'a', 26);
}

class VectorGpt2Splitter final : public Splitter {
  public:
    VectorGpt2Splitter() : classes_(class_table()) {}

    void start(std::string_view text) override {
        text_ = reinterpret_cast<const u8*>(text.data());
        size_ = static_cast<u32>(text.size());
        base_ = 0;
        spill_ = {};
        before_ = {};
        spilled_space_ = 0;
        clear_ = add_ = 0;
        done_ = size_ == 0;
        if (!done_) current_ = classify_at(0);
    }

    LM_AVX2 i64 next(u32* ends, i64 capacity) override {
        if (done_) return 0;
        u32* out = ends;
        u32* const limit = ends + capacity - block_bytes - 8;  // emit() writes in eights
        while (base_ < size_ && out <= limit) {
            const u32 following = base_ + block_bytes;
            const Masks ahead =
                following < size_ ? classify_at(following) : Masks{0, 0, ~u64{0}, 0, 0, 0, 0};
            u64 starts = piece_starts(current_, ahead.space);
            if (base_ == 0) starts &= ~u64{1};
            if (size_ - base_ < block_bytes) starts = _bzhi_u64(starts, size_ - base_);
            out = emit(starts, base_, out);
            current_ = ahead;
            base_ = following;
        }
        if (base_ >= size_) {
            *out++ = size_;
            done_ = true;
        }
        return out - ends;
    }

  private:
    // The last bits of the block before, as bit 0.
    struct Before {
        u64 letter = 0, number = 0, space = 1, other = 0, blank = 0;
    };

    LM_AVX2 Masks classify_at(u32 begin) {
        if (begin + block_bytes + reach <= size_) return classify(text_ + begin);
        u8 tail[block_bytes + reach + 1];
        std::memset(tail, ' ', sizeof tail);
        std::memcpy(tail, text_ + begin, std::min<size_t>(sizeof tail, size_ - begin));
        return classify(tail);
    }

    LM_AVX2_INLINE Masks classify(const u8* block) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
        Masks m;
        m.letter = bits_of(letters(low), letters(high));
        m.number = bits_of(in_range(low, '0', 10), in_range(high, '0', 10));
        m.blank = equal(low, high, ' ');
        m.space = bits_of(in_range(low, '\t', 5), in_range(high, '\t', 5)) | m.blank;
        m.apostrophe = equal(low, high, '\'');
        m.space2 = m.space3 = 0;
        const u64 beyond_ascii = bits_of(low, high);
        if ((beyond_ascii | spill_.letter | spill_.number | spill_.space) != 0) {
            classify_wide(block, low, high, beyond_ascii, m);
        }
        return m;
    }

    LM_AVX2_INLINE static u64 equal(__m256i low, __m256i high, char c) {
        const __m256i wanted = _mm256_set1_epi8(c);
        return bits_of(_mm256_cmpeq_epi8(low, wanted), _mm256_cmpeq_epi8(high, wanted));
    }

    // Characters beyond ASCII: first those whose first byte already says "letter" (Cyrillic U+0400
    // to U+047F, U+5000 to U+9FFF, U+B000 to U+CFFF), then one by one through the table.
    LM_AVX2 void classify_wide(const u8* block, __m256i low, __m256i high, u64 beyond_ascii,
                               Masks& m) {
        m.letter |= spill_.letter;
        m.number |= spill_.number;
        m.space |= spill_.space;
        spill_ = {};
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

    LM_AVX2_INLINE static __m256i sure_three(__m256i bytes) {
        return _mm256_or_si256(in_range(bytes, '\xE5', 5), in_range(bytes, '\xEB', 2));
    }

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

    LM_AVX2_INLINE u64 piece_starts(const Masks& m, u64 space_ahead) {
        const u64 other = ~(m.letter | m.number | m.space);
        const u64 runs = (m.letter & ~(m.letter << 1 | before_.letter)) |
                         (m.number & ~(m.number << 1 | before_.number)) |
                         (other & ~(other << 1 | before_.other));
        u64 starts = runs & ~(m.blank << 1 | before_.blank);
        starts |= m.space & ~(m.space << 1 | before_.space);
        const u64 wide = m.space2 | m.space3;
        // One-byte whitespace: neither the first nor a later byte of a wide one.
        const u64 narrow = wide == 0 ? m.space : m.space & ~(wide | wide << 1 | m.space3 << 2);
        starts |= narrow & ~(m.space >> 1 | space_ahead << 63) & ~spilled_space_;
        if (wide != 0) {
            starts |= m.space2 & ~(m.space >> 2 | space_ahead << 62);
            starts |= m.space3 & ~(m.space >> 3 | space_ahead << 61);
        }
        before_ = {m.letter >> 63, m.number >> 63, m.space >> 63, other >> 63, m.blank >> 63};
        spilled_space_ = wide == 0 ? 0 : (wide >> 63 | m.space3 >> 62);
        starts = (starts & ~clear_) | add_;
        clear_ = add_ = 0;
        return move_contractions(starts, m.apostrophe);
    }

    LM_AVX2_INLINE u64 move_contractions(u64 starts, u64 apostrophes) {
        for (u64 left = starts & apostrophes; left != 0; left &= left - 1) {
            const auto at = static_cast<u32>(_tzcnt_u64(left));
            const u32 length = contraction(base_ + at);
            if (length == 0) continue;
            const u32 behind = at + length;
            if (at + 1 < 64) {
                starts &= ~(u64{1} << (at + 1));
            } else {
                clear_ |= 1;
            }
            (behind < 64 ? starts : add_) |= u64{1} << (behind & 63);
        }
        return starts;
    }

    // Length of the contraction at `at`, where an apostrophe stands; 0: none.
    u32 contraction(u32 at) const {
        const u32 a = at + 1 < size_ ? text_[at + 1] : 0;
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
        if (a != 'r' && a != 'v' && a != 'l') return 0;
        const u32 b = at + 2 < size_ ? text_[at + 2] : 0;
        return b == (a == 'l' ? 'l' : 'e') ? 3 : 0;
    }

    LM_AVX2_INLINE static u32* emit(u64 starts, u32 base, u32* out) {
        const auto n = static_cast<u32>(_mm_popcnt_u64(starts));
        for (u32 done = 0; done < n; done += 8) {
            for (u32 k = 0; k < 8; ++k) {
                out[done + k] = base + static_cast<u32>(_tzcnt_u64(starts));
                starts = _blsr_u64(starts);
            }
        }
        return out + n;
    }

    const ClassTable& classes_;
    const u8* text_ = nullptr;
    u32 size_ = 0;
    u32 base_ = 0;  // of the block whose masks are current_
    bool done_ = true;
    Masks current_{};
    Spill spill_;  // from current_ into the block after it
    Before before_;
    u64 spilled_space_ = 0;    // bytes of the current block that end a wide space of the one before
    u64 clear_ = 0, add_ = 0;  // changes to the next block's starts
};

}  // namespace

bool has_vector_splitter() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

std::unique_ptr<Splitter> make_vector_gpt2_splitter() {
    return std::make_unique<VectorGpt2Splitter>();
}

}  // namespace lm::text

#else

namespace lm::text {

bool has_vector_splitter() {
    return false;
}
std::unique_ptr<Splitter> make_vector_gpt2_splitter() {
    bug(__FILE__, __LINE__, "no vector splitter here");
}

}  // namespace lm::text

#endif
