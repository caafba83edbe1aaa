// SPDX-License-Identifier: Apache-2.0
// Computes the starts of the pre-tokens in up to 64 bytes of ASCII by bit operations, for the
// pre-tokenizers of BLOOM and Llama-3. Bit i stands for byte i of the block. A block begins where a
// pre-token begins, and the patterns never look back, so no state passes from block to block.
// Idioms, where x is the mask of a class:
//   x & ~(x << 1)  the first byte of each run
//   x & ~(x >> 1)  the last byte of each run
//   x + y          the carry passes through a run of x if y has the bit of its first byte
#pragma once

#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)
#include <bit>

namespace lm::text {

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

}  // namespace lm::text

#endif
