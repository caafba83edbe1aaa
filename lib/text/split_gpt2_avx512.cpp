// SPDX-License-Identifier: Apache-2.0
#include "text/split_gpt2_avx512.hpp"

#include <array>

#include "base/error.hpp"
#include "base/processor.hpp"
#if defined(__x86_64__)
// g++ 12 warns of its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include "text/gpt2_starts_avx2.hpp"
#include "text/split_gpt2_avx2.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

class WideGpt2Splitter final : public Splitter {
  public:
    void start(std::string_view text) override {
        text_ = reinterpret_cast<const u8*>(text.data());
        size_ = static_cast<u32>(text.size());
        base_ = 0;
        masker_.restart();
        starts_.restart(text_, size_);
        done_ = size_ == 0;
        if (!done_) current_ = masker_.classify_at_wide(text_, size_, 0);
    }

    LM_WIDE i64 next(u32* ends, i64 capacity) override {
        if (done_) return 0;
        u32* out = ends;
        u32* const limit = ends + capacity - block_bytes - 8;  // emit() writes 32
        while (base_ < size_ && out <= limit) {
            const u32 following = base_ + block_bytes;
            const Masks ahead = following < size_
                                    ? masker_.classify_at_wide(text_, size_, following)
                                    : Masks{0, 0, ~u64{0}, 0, 0, 0, 0};
            out = emit(starts_.of_block(base_, current_, ahead.space), base_, out);
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
    // The positions of the bits, without a branch that depends on how many there are: few blocks
    // have more than 32.
    LM_WIDE_INLINE static u32* emit(u64 starts, u32 base, u32* out) {
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

    LM_WIDE_INLINE static void store(__m128i positions, u32 base, u32* out) {
        const __m512i wide = _mm512_cvtepu8_epi32(positions);
        _mm512_storeu_si512(out, _mm512_add_epi32(wide, _mm512_set1_epi32(static_cast<int>(base))));
    }

    LM_WIDE_INLINE static __m512i counting() {
        alignas(64) static constexpr auto bytes = [] {
            std::array<u8, 64> values{};
            for (u8 i = 0; i < 64; ++i) values[i] = i;
            return values;
        }();
        return _mm512_load_si512(bytes.data());
    }

    CharMasker masker_;
    Gpt2Starts starts_;
    const u8* text_ = nullptr;
    u32 size_ = 0;
    u32 base_ = 0;  // of the block whose masks are current_
    bool done_ = true;
    Masks current_{};
};

}  // namespace

bool has_wide_splitter() {
    return has_vector_splitter() && may_use(Vectors::avx512) &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi2");
}

std::unique_ptr<Splitter> make_wide_gpt2_splitter() {
    return std::make_unique<WideGpt2Splitter>();
}

}  // namespace lm::text

#else

namespace lm::text {

bool has_wide_splitter() {
    return false;
}
std::unique_ptr<Splitter> make_wide_gpt2_splitter() {
    bug(__FILE__, __LINE__, "no vector splitter here");
}

}  // namespace lm::text

#endif
