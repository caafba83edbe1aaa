// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/x86/masked_pretokenizer.hpp"

#include <bit>

#include "base/error.hpp"
#include "text/pretokenizer/rules/pretoken_rules.hpp"
#include "text/pretokenizer/x86/ascii_blocks.hpp"
#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

// Reads characters as CharReader does, but skips runs of a class faster, because it keeps one bit
// mask for each character class over a window of the text. A window begins at a character. Inside
// the window, a skip scans the masks; beyond its end, it decodes characters.
class MaskReader {
  public:
    void start(std::string_view text) {
        chars_ = CharReader(text);
        begin_ = covered_ = 0;
    }

    // Moves the window if needed, so that skips from `position` are fast. A character begins at
    // `position`.
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
    static constexpr u32 refill = window - 512;  // most runs are shorter than 512 bytes

    // Returns the end of the run at `position`, but at most the end of the window. Returns
    // `position` if it is outside the window.
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
        // The window contains only whole characters, so a character begins after it.
        covered_ = std::min(window, size() - begin_);
        if (begin_ + covered_ == size()) return;
        while (covered_ > window - 4 && (bytes[begin_ + covered_] & 0xC0) == 0x80) --covered_;
    }

    CharReader chars_;
    CharMasker masker_;
    u32 begin_ = 0;    // offset of the window
    u32 covered_ = 0;  // size of the window in bytes
    u64 masks_[4][n_blocks] = {};
};

struct Llama3Rule {
    int max_digits;
    u32 pretoken_end(const MaskReader& chars, u32 begin) const {
        return llama3_pretoken_end(chars, begin, max_digits);
    }
    static constexpr bool stops = false;
    LM_AVX2_INLINE u64 starts(const AsciiBlock& b, const u8* text) const {
        u64 all = certain_starts(b, llama3_starts(b, static_cast<u32>(max_digits)));
        for (u64 left = all & b.apostrophe; left != 0; left &= left - 1) {
            const auto at = static_cast<u32>(std::countr_zero(left));
            if (at + 2 >= b.n && !b.at_end) return all & low_bits(at + 1);
            const u32 end = at + contraction(text + at, b.n - at);
            if (end > at && end < 64) all |= u64{1} << end;
        }
        return all;
    }

  private:
    // `text` begins with an apostrophe and has `n` bytes. Returns the length of the contraction at
    // its start, or 0.
    static u32 contraction(const u8* text, u32 n) {
        const u32 a = n > 1 ? text[1] | 0x20U : 0;
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
        if (a != 'r' && a != 'v' && a != 'l') return 0;
        const u32 b = n > 2 ? text[2] | 0x20U : 0;
        return b == (a == 'l' ? 'l' : 'e') ? 3 : 0;
    }
};

struct BloomRule {
    u32 pretoken_end(const MaskReader& chars, u32 begin) const {
        return bloom_pretoken_end(chars, begin);
    }
    static constexpr bool stops = true;
    LM_AVX2_INLINE u64 starts(const AsciiBlock& b, const u8*) const { return bloom_starts(b); }
};

// Cuts ASCII by bit operations on blocks, and other text by the rule, a few pre-tokens at a time.
template <typename Rule>
class MaskedPretokenizer final : public Pretokenizer {
  public:
    explicit MaskedPretokenizer(Rule rule) : rule_(rule) {}

    void start(std::string_view text) override {
        chars_.start(text);
        text_ = reinterpret_cast<const u8*>(text.data());
        position_ = 0;
        walk_ = 0;
    }
    i64 next(u32* ends, i64 capacity) override {
        i64 n = 0;
        while (n < capacity && position_ < chars_.size()) {
            if (walk_ == 0) {
                if (capacity - n < block_bytes + 8)
                    break;  // n > 0 here, since capacity is at least 128
                const i64 n_block = next_block(ends + n);
                n += n_block;
                if (n_block > 0) continue;
                walk_ = pretokens_to_walk;
            }
            --walk_;
            chars_.look_at(position_);
            // If the text ends in the middle of a character, the rule may return an end after the
            // text.
            position_ = std::min(rule_.pretoken_end(chars_, position_), chars_.size());
            ends[n++] = position_;
        }
        return n;
    }

  private:
    static constexpr int pretokens_to_walk =
        8;  // if a block yields no end, the next one rarely does
    static constexpr u32 least_block = 12;

    // Cuts the ASCII bytes at position_, at most 64, and returns the number of ends. Returns 0 when
    // there are too few ASCII bytes, or no certain end. position_ is a start already, so bit 0 is
    // removed. The last end becomes position_; the bytes after it are read again with the next
    // block.
    LM_AVX2 i64 next_block(u32* ends) {
        const AsciiBlock b = read_ascii_block(text_, chars_.size(), position_, Rule::stops);
        if (b.n < least_block && !b.at_end) return 0;
        if (b.n == 0) return 0;
        u64 starts = rule_.starts(b, text_ + position_) & low_bits(b.n) & ~u64{1};
        i64 n = std::popcount(starts);
        // Writes eight ends at a time, so there is no branch for each end. next() leaves room for
        // the up to seven surplus numbers.
        for (i64 done = 0; done < n; done += 8) {
            for (int k = 0; k < 8; ++k) {
                ends[done + k] = position_ + static_cast<u32>(std::countr_zero(starts));
                starts &= starts - 1;
            }
        }
        if (b.at_end) ends[n++] = chars_.size();
        if (n > 0) position_ = ends[n - 1];
        return n;
    }

    Rule rule_;
    MaskReader chars_;
    const u8* text_ = nullptr;
    u32 position_ = 0;
    int walk_ = 0;  // number of pre-tokens to walk before the next block
};

}  // namespace

std::unique_ptr<Pretokenizer> make_masked_pretokenizer(PretokenizerRule rule) {
    if (rule == PretokenizerRule::bloom)
        return std::make_unique<MaskedPretokenizer<BloomRule>>(BloomRule{});
    LM_CHECK(rule == PretokenizerRule::llama3 || rule == PretokenizerRule::qwen2,
             "expected the rule llama3, qwen2 or bloom, got rule {}", static_cast<int>(rule));
    return std::make_unique<MaskedPretokenizer<Llama3Rule>>(
        Llama3Rule{rule == PretokenizerRule::llama3 ? 3 : 1});
}

}  // namespace lm::text

#else

namespace lm::text {

std::unique_ptr<Pretokenizer> make_masked_pretokenizer(PretokenizerRule) {
    bug(__FILE__, __LINE__, "expected an x86-64 machine");
}

}  // namespace lm::text

#endif
