// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/x86/gpt2_pretokenizer.hpp"

#include <array>

#include "base/error.hpp"
#include "base/machine.hpp"
#if defined(__x86_64__)
// g++ 12 warns about code in the compiler's own headers (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#endif
#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

// Computes the starts of GPT-2's pre-tokens as bit masks, for the pattern
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Bit i stands for byte i of a block, and all bytes of a character have its class. L, N, W and O
// are the masks of letters, numbers, whitespace and other characters. A pre-token starts
//   at the beginning of a run of L, N or O, or at the U+0020 before the run, if any (" ?");
//   at the beginning of a run of W;
//   at the last character of a run of W, unless the text ends there, because "\s+(?!\S)" does not
//   match this character. Whitespace is assumed after the text, so that a run of W at the end is
//   one pre-token.
//
// If a start at an apostrophe is a contraction, the start of the letters after the apostrophe moves
// to the end of the contraction. Contractions come first in the pattern, but a pre-token can begin
// with an apostrophe only where the other rules give a start. So it suffices to correct these
// starts.

class Gpt2Starts {
  public:
    void restart(const u8* text, u32 size) {
        text_ = text;
        size_ = size;
        before_ = {};
        spilled_space_ = 0;
        clear_ = add_ = 0;
    }

    // Returns the starts in the block at `base`, except the start of the text. `space_ahead` is the
    // mask of whitespace of the next block.
    LM_AVX2_INLINE u64 of_block(u32 base, const Masks& m, u64 space_ahead) {
        u64 starts = pretoken_starts(base, m, space_ahead);
        if (base == 0) starts &= ~u64{1};
        if (size_ - base < block_bytes) starts = _bzhi_u64(starts, size_ - base);
        return starts;
    }

  private:
    // Class bits of the last byte of the previous block, as bit 0. Before the first block `space`
    // is 1, as if whitespace preceded the text.
    struct Before {
        u64 letter = 0, number = 0, space = 1, other = 0, blank = 0;
    };

    LM_AVX2_INLINE u64 pretoken_starts(u32 base, const Masks& m, u64 space_ahead) {
        const u64 other = ~(m.letter | m.number | m.space);
        const u64 runs = (m.letter & ~(m.letter << 1 | before_.letter)) |
                         (m.number & ~(m.number << 1 | before_.number)) |
                         (other & ~(other << 1 | before_.other));
        // A run after U+0020 does not start a pre-token, because the U+0020 starts that pre-token,
        // as the last character of its run of W (see the next step).
        u64 starts = runs & ~(m.blank << 1 | before_.blank);
        starts |= m.space & ~(m.space << 1 | before_.space);
        // Starts at the last character of each run of W. A whitespace character of n bytes is the
        // last one of its run if the byte at distance n is not whitespace. `narrow` is the
        // whitespace of one byte, without the bytes of longer characters.
        const u64 wide = m.space2 | m.space3;
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
        return move_contractions(base, starts, m.apostrophe);
    }

    // For each contraction, removes the start after its apostrophe and adds a start at its end.
    LM_AVX2_INLINE u64 move_contractions(u32 base, u64 starts, u64 apostrophes) {
        for (u64 left = starts & apostrophes; left != 0; left &= left - 1) {
            const auto at = static_cast<u32>(_tzcnt_u64(left));
            const u32 length = contraction(base + at);
            if (length == 0) continue;
            const u32 end = at + length;
            if (at + 1 < 64) {
                starts &= ~(u64{1} << (at + 1));
            } else {
                clear_ |= 1;
            }
            (end < 64 ? starts : add_) |= u64{1} << (end & 63);
        }
        return starts;
    }

    // There is an apostrophe at `at`. Returns the length of the contraction there, or 0.
    u32 contraction(u32 at) const {
        const u32 a = at + 1 < size_ ? text_[at + 1] : 0;
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
        if (a != 'r' && a != 'v' && a != 'l') return 0;
        const u32 b = at + 2 < size_ ? text_[at + 2] : 0;
        return b == (a == 'l' ? 'l' : 'e') ? 3 : 0;
    }

    const u8* text_ = nullptr;
    u32 size_ = 0;
    Before before_;
    u64 spilled_space_ = 0;    // bytes of a whitespace character that began in the previous block
    u64 clear_ = 0, add_ = 0;  // starts of the next block to remove and add, for contractions
};

// The operations of one instruction set. classify_at() classifies the bytes of a block. emit()
// writes `base` plus the position of each set bit of `starts` to `out`, and returns the end of the
// written numbers. It may write up to 64 numbers.
struct Avx2 {
    LM_AVX2 static Masks classify_at(CharMasker& masker, const u8* text, u32 size, u32 begin) {
        return masker.classify_at(text, size, begin);
    }

    LM_AVX2 static u32* emit(u64 starts, u32 base, u32* out) {
        const auto n = static_cast<u32>(_mm_popcnt_u64(starts));
        for (u32 done = 0; done < n; done += 8) {
            for (u32 k = 0; k < 8; ++k) {
                out[done + k] = base + static_cast<u32>(_tzcnt_u64(starts));
                starts = _blsr_u64(starts);
            }
        }
        return out + n;
    }
};

struct Avx512 {
    LM_AVX512 static Masks classify_at(CharMasker& masker, const u8* text, u32 size, u32 begin) {
        return masker.classify_at_avx512(text, size, begin);
    }

    // Compresses the numbers 0 to 63 by the mask. Its only branch is predictable, because few
    // blocks have more than 32 starts.
    LM_AVX512 static u32* emit(u64 starts, u32 base, u32* out) {
        const __m512i positions = _mm512_maskz_compress_epi8(starts, counting());
        const auto n = static_cast<u32>(_mm_popcnt_u64(starts));
        store(_mm512_castsi512_si128(positions), base, out);
        store(_mm512_extracti32x4_epi32(positions, 1), base, out + 16);
        if (n > 32) [[unlikely]] {
            store(_mm512_extracti32x4_epi32(positions, 2), base, out + 32);
            store(_mm512_extracti32x4_epi32(positions, 3), base, out + 48);
        }
        return out + n;
    }

  private:
    LM_AVX512_INLINE static void store(__m128i positions, u32 base, u32* out) {
        const __m512i wide = _mm512_cvtepu8_epi32(positions);
        _mm512_storeu_si512(out, _mm512_add_epi32(wide, _mm512_set1_epi32(static_cast<int>(base))));
    }

    LM_AVX512_INLINE static __m512i counting() {
        alignas(64) static constexpr auto bytes = [] {
            std::array<u8, 64> values{};
            for (u8 i = 0; i < 64; ++i) values[i] = i;
            return values;
        }();
        return _mm512_load_si512(bytes.data());
    }
};

// Walks over the text by blocks. A start at the end of a block depends on the whitespace after the
// block, so the next block is classified before the starts are computed. Derived classes compile
// fill() for their instruction set.
template <typename Set>
class Gpt2Blocks : public Pretokenizer {
  public:
    void start(std::string_view text) override {
        text_ = reinterpret_cast<const u8*>(text.data());
        size_ = static_cast<u32>(text.size());
        base_ = 0;
        masker_.restart();
        starts_.restart(text_, size_);
        done_ = size_ == 0;
        if (!done_) current_ = Set::classify_at(masker_, text_, size_, 0);
    }

  protected:
    // The body of next(). `limit` leaves room for the numbers that emit() may write, and for the
    // end of the text.
    LM_AVX2_INLINE i64 fill(u32* ends, i64 capacity) {
        if (done_) return 0;
        u32* out = ends;
        u32* const limit = ends + capacity - block_bytes - 8;
        while (base_ < size_ && out <= limit) {
            const u32 following = base_ + block_bytes;
            const Masks ahead = following < size_
                                    ? Set::classify_at(masker_, text_, size_, following)
                                    : Masks{0, 0, ~u64{0}, 0, 0, 0, 0};
            out = Set::emit(starts_.of_block(base_, current_, ahead.space), base_, out);
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
    CharMasker masker_;
    Gpt2Starts starts_;
    const u8* text_ = nullptr;
    u32 size_ = 0;
    u32 base_ = 0;  // offset of the block that current_ describes
    bool done_ = true;
    Masks current_{};
};

class Avx2Gpt2Pretokenizer final : public Gpt2Blocks<Avx2> {
  public:
    LM_AVX2 i64 next(u32* ends, i64 capacity) override { return fill(ends, capacity); }
};

class Avx512Gpt2Pretokenizer final : public Gpt2Blocks<Avx512> {
  public:
    LM_AVX512 i64 next(u32* ends, i64 capacity) override { return fill(ends, capacity); }
};

}  // namespace

bool has_avx2_pretokenizers() {
    return may_use(Vectors::avx2) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("bmi2");
}

bool has_avx512_pretokenizers() {
    return has_avx2_pretokenizers() && may_use(Vectors::avx512) &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi2");
}

std::unique_ptr<Pretokenizer> make_avx2_gpt2_pretokenizer() {
    return std::make_unique<Avx2Gpt2Pretokenizer>();
}

std::unique_ptr<Pretokenizer> make_avx512_gpt2_pretokenizer() {
    return std::make_unique<Avx512Gpt2Pretokenizer>();
}

}  // namespace lm::text

#else

namespace lm::text {

bool has_avx2_pretokenizers() {
    return false;
}
bool has_avx512_pretokenizers() {
    return false;
}
std::unique_ptr<Pretokenizer> make_avx2_gpt2_pretokenizer() {
    bug(__FILE__, __LINE__, "expected an x86-64 machine");
}
std::unique_ptr<Pretokenizer> make_avx512_gpt2_pretokenizer() {
    bug(__FILE__, __LINE__, "expected an x86-64 machine");
}

}  // namespace lm::text

#endif
