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
#include "text/pretokenizer/x86/gpt2_starts.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

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
