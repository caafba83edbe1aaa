// SPDX-License-Identifier: Apache-2.0
#include "text/split_masked.hpp"

#include <bit>

#include "base/error.hpp"
#include "text/char_masks_avx2.hpp"
#include "text/split_rules.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

class MaskReader {
  public:
    void start(std::string_view text) {
        chars_ = CharReader(text);
        begin_ = covered_ = 0;
    }

    // Skips are fast from `position` on, where a character begins.
    void look_at(u32 position) {
        if (position - begin_ >= refill && begin_ + covered_ < size()) cover(position);
        if (covered_ == 0) cover(position);
    }

    u32 size() const { return chars_.size(); }
    Char at(u32 position) const { return chars_.at(position); }

    u32 skip(u32 position, CharClass cls) const {
        const u64* mask = masks_[static_cast<int>(cls)];
        const u32 end = run_end(position, [mask](u32 i) { return mask[i]; });
        return end < begin_ + covered_ ? end : chars_.skip(end, cls);
    }

    u32 skip_letters_and_numbers(u32 position) const {
        const u64* letters = masks_[static_cast<int>(CharClass::letter)];
        const u64* numbers = masks_[static_cast<int>(CharClass::number)];
        const u32 end = run_end(position, [&](u32 i) { return letters[i] | numbers[i]; });
        return end < begin_ + covered_ ? end : chars_.skip_letters_and_numbers(end);
    }

  private:
    static constexpr u32 n_blocks = 64;
    static constexpr u32 window = n_blocks * block_bytes;
    static constexpr u32 refill = window - 512;  // most runs are shorter than the rest

    // The end of a run in the window, or the end of the window; or `position` when it lies beyond.
    template <typename Mask>
    u32 run_end(u32 position, Mask mask) const {
        u32 at = position - begin_;
        if (at >= covered_) return position;
        u32 block = at / block_bytes;
        u64 ends = ~mask(block) >> (at % block_bytes) << (at % block_bytes);
        while (ends == 0 && ++block < n_blocks) ends = ~mask(block);
        at = ends == 0 ? window : block * block_bytes + static_cast<u32>(std::countr_zero(ends));
        return begin_ + std::min(at, covered_);
    }

    LM_AVX2 void cover(u32 position) {
        const auto* bytes = reinterpret_cast<const u8*>(chars_.text().data());
        begin_ = position;
        masker_.restart();
        for (u32 i = 0; i < n_blocks && begin_ + i * block_bytes < size(); ++i) {
            const Masks m = masker_.classify_at(bytes, size(), begin_ + i * block_bytes);
            masks_[static_cast<int>(CharClass::letter)][i] = m.letter;
            masks_[static_cast<int>(CharClass::number)][i] = m.number;
            masks_[static_cast<int>(CharClass::space)][i] = m.space;
            masks_[static_cast<int>(CharClass::other)][i] = ~(m.letter | m.number | m.space);
        }
        // Only whole characters: what comes behind begins with one.
        covered_ = std::min(window, size() - begin_);
        if (begin_ + covered_ == size()) return;
        while (covered_ > window - 4 && (bytes[begin_ + covered_] & 0xC0) == 0x80) --covered_;
    }

    CharReader chars_;
    CharMasker masker_;
    u32 begin_ = 0;    // of the window
    u32 covered_ = 0;  // bytes of it
    u64 masks_[4][n_blocks] = {};
};

template <typename PieceEnd>
class MaskedSplitter final : public Splitter {
  public:
    explicit MaskedSplitter(PieceEnd piece_end) : piece_end_(piece_end) {}

    void start(std::string_view text) override {
        chars_.start(text);
        position_ = 0;
    }
    i64 next(u32* ends, i64 capacity) override {
        i64 n = 0;
        while (n < capacity && position_ < chars_.size()) {
            chars_.look_at(position_);
            // Broken UTF-8 may end in the middle of a character.
            position_ = std::min(piece_end_(chars_, position_), chars_.size());
            ends[n++] = position_;
        }
        return n;
    }

  private:
    PieceEnd piece_end_;
    MaskReader chars_;
    u32 position_ = 0;
};

template <typename PieceEnd>
std::unique_ptr<Splitter> masked(PieceEnd piece_end) {
    return std::make_unique<MaskedSplitter<PieceEnd>>(piece_end);
}

}  // namespace

std::unique_ptr<Splitter> make_masked_splitter(SplitRule rule) {
    if (rule == SplitRule::bloom)
        return masked([](const MaskReader& c, u32 at) { return bloom_piece_end(c, at); });
    if (rule == SplitRule::llama3)
        return masked([](const MaskReader& c, u32 at) { return llama3_piece_end(c, at, 3); });
    LM_CHECK(rule == SplitRule::qwen2, "no masked splitter for this rule");
    return masked([](const MaskReader& c, u32 at) { return llama3_piece_end(c, at, 1); });
}

}  // namespace lm::text

#else

namespace lm::text {

std::unique_ptr<Splitter> make_masked_splitter(SplitRule) {
    bug(__FILE__, __LINE__, "no masked splitter here");
}

}  // namespace lm::text

#endif
