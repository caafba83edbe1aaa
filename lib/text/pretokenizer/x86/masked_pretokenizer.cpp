// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/x86/masked_pretokenizer.hpp"

#include <bit>

#include "base/error.hpp"
#include "text/pretokenizer/rules/pretoken_rules.hpp"
#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)

namespace lm::text {
namespace {

// Computes the starts of the pre-tokens in up to 64 bytes of ASCII by bit operations, for the
// pre-tokenizers of BLOOM and Llama-3. Bit i stands for byte i of the block. A block begins where a
// pre-token begins, and the patterns never look back, so no state passes from block to block.
// Idioms, where x is the mask of a class:
//   x & ~(x << 1)  the first byte of each run
//   x & ~(x >> 1)  the last byte of each run
//   x + y          the carry passes through a run of x if y has the bit of its first byte

// The bytes of each class in a block. `blank` is U+0020.
struct AsciiBlock {
    u64 letter, number, space, line_end, blank, apostrophe;
    u64 stop;     // BLOOM's punctuation: ( ) | . , ! ?
    u32 n;        // number of bytes before the first non-ASCII byte or the end of the text
    bool at_end;  // the text ends after these bytes
};

LM_AVX2_INLINE u64 low_bits(u32 n) {
    return n >= 64 ? ~u64{0} : (u64{1} << n) - 1;
}

// Reads up to 64 bytes of the text at `begin`. `stops`: also computes AsciiBlock::stop. No mask has
// bits at or above AsciiBlock::n.
LM_AVX2_INLINE AsciiBlock read_ascii_block(const u8* text, u32 size, u32 begin, bool stops) {
    u8 tail[block_bytes];
    const u8* bytes = text + begin;
    const u32 left = size - begin;
    if (left < block_bytes) {
        std::memset(tail, 0, sizeof tail);
        std::memcpy(tail, bytes, left);
        bytes = tail;
    }
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32));
    const u64 wide = bits_of(low, high);
    AsciiBlock b;
    b.n = std::min(std::min(left, block_bytes), static_cast<u32>(_tzcnt_u64(wide)));
    b.at_end = b.n == left;
    const u64 valid = low_bits(b.n);
    b.letter = bits_of(letters(low), letters(high)) & valid;
    b.number = bits_of(in_range(low, '0', 10), in_range(high, '0', 10)) & valid;
    b.blank = equal_bits(low, high, ' ') & valid;
    b.space = (bits_of(in_range(low, '\t', 5), in_range(high, '\t', 5)) & valid) | b.blank;
    b.line_end = (equal_bits(low, high, '\n') | equal_bits(low, high, '\r')) & valid;
    b.apostrophe = equal_bits(low, high, '\'') & valid;
    b.stop = !stops ? 0
                    : (equal_bits(low, high, '(') | equal_bits(low, high, ')') |
                       equal_bits(low, high, '|') | equal_bits(low, high, '.') |
                       equal_bits(low, high, ',') | equal_bits(low, high, '!') |
                       equal_bits(low, high, '?')) &
                          valid;
    return b;
}

// Returns the position of the first bit of the run of `mask` that ends at bit end - 1, or `end` if
// there is no such run.
LM_AVX2_INLINE u32 run_begin(u64 mask, u32 end) {
    return 64 - static_cast<u32>(std::countl_zero(~mask & low_bits(end)));
}

// Returns the starts that do not depend on the bytes after the block. A run of whitespace at the
// end may continue after the block, so only the first byte of such a run is a certain start.
LM_AVX2_INLINE u64 certain_starts(const AsciiBlock& b, u64 starts) {
    const bool open = !b.at_end && (b.space >> (b.n - 1) & 1) != 0;
    return open ? starts & low_bits(run_begin(b.space, b.n) + 1) : starts;
}

// Returns the starts for BLOOM: a word includes the blank before it. The text between two words is
// one pre-token.
LM_AVX2_INLINE u64 bloom_starts(const AsciiBlock& b) {
    const u64 gap = b.space | b.stop;
    const u64 word = low_bits(b.n) & ~gap;
    const u64 word_begins = word & ~(word << 1);
    return (word_begins & ~(b.blank << 1)) | (b.blank & word_begins >> 1) | (gap & ~(gap << 1));
}

// Llama-3: returns the starts of groups of three digits, counted from the beginning of each run.
LM_AVX2_INLINE u64 number_starts(u64 number) {
    u64 starts = number & ~(number << 1);
    // The digits with at least three digits before them. The first of these digits begins a group,
    // so the next two digits do not.
    u64 more = number & number << 1 & number << 2 & number << 3;
    while (more != 0) {
        const auto at = static_cast<u32>(std::countr_zero(more));
        starts |= u64{1} << at;
        more &= ~low_bits(std::min(at + 3, 64U));
    }
    return starts;
}

// Returns the starts for the pattern of Llama-3 and Qwen2 without contractions. The caller handles
// contractions at the starts that are apostrophes.
// [^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
LM_AVX2_INLINE u64 llama3_starts(const AsciiBlock& b, u32 max_digits) {
    const u64 other = low_bits(b.n) & ~(b.letter | b.number | b.space);
    // [\r\n]* after other characters absorbs the run of line ends that begins right after them. The
    // addition of the first bit of such a run clears the run, because the carry passes through it.
    const u64 absorbed = b.line_end & ~(b.line_end + (other << 1 & b.line_end));
    u64 space = b.space & ~absorbed;
    u64 starts = 0;
    // \s*[\r\n]+: a run of whitespace up to its last line end is one pre-token. A run may have
    // several line ends, so the loop begins at the right.
    for (u64 ends = b.line_end & ~absorbed; ends != 0;) {
        const u32 last = 63 - static_cast<u32>(std::countl_zero(ends));
        const u32 first = run_begin(space, last);
        starts |= u64{1} << first;
        space &= ~(low_bits(last + 1) & ~low_bits(first));
        ends &= low_bits(first);
    }
    // The rest of each run: \s+(?!\S) matches all characters except the last one. The last one is
    // also a start; the letters or other characters after it may belong to the same pre-token.
    starts |= space & ~(space << 1);
    starts |= space & ~(space >> 1);
    if (b.at_end && (space >> (b.n - 1) & 1) != 0) starts &= low_bits(run_begin(space, b.n) + 1);
    // The regular expression " ?[^\s...]+": a run of other characters begins at the blank before
    // it, so its first character is a start only without that blank.
    const u64 joined = (b.blank & space) << 1;
    const u64 other_begins = other & ~(other << 1);
    starts |= other_begins & ~joined;
    // "[^\r\n...]?\p{L}+": a word begins at an other character before its letters, if that
    // character is the only one of its run and has no blank before it (`lone`).
    const u64 lone = other_begins & ~joined & ~(other >> 1);
    starts |= b.letter & ~(b.letter << 1) & ~((space | lone) << 1);
    starts |= max_digits == 1 ? b.number : number_starts(b.number);
    return starts;
}

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
