// SPDX-License-Identifier: Apache-2.0
#include "text/split_gpt2_avx2.hpp"

#include "base/error.hpp"
#include "base/processor.hpp"
#include "text/gpt2_starts_avx2.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

class VectorGpt2Splitter final : public Splitter {
  public:
    void start(std::string_view text) override {
        text_ = reinterpret_cast<const u8*>(text.data());
        size_ = static_cast<u32>(text.size());
        base_ = 0;
        masker_.restart();
        starts_.restart(text_, size_);
        done_ = size_ == 0;
        if (!done_) current_ = masker_.classify_at(text_, size_, 0);
    }

    LM_AVX2 i64 next(u32* ends, i64 capacity) override {
        if (done_) return 0;
        u32* out = ends;
        u32* const limit = ends + capacity - block_bytes - 8;  // emit() writes in eights
        while (base_ < size_ && out <= limit) {
            const u32 following = base_ + block_bytes;
            const Masks ahead = following < size_ ? masker_.classify_at(text_, size_, following)
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

    CharMasker masker_;
    Gpt2Starts starts_;
    const u8* text_ = nullptr;
    u32 size_ = 0;
    u32 base_ = 0;  // of the block whose masks are current_
    bool done_ = true;
    Masks current_{};
};

}  // namespace

bool has_vector_splitter() {
    return may_use(Vectors::avx2) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("bmi2");
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
