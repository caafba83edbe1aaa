// SPDX-License-Identifier: Apache-2.0
// Piece starts in up to 64 bytes of ASCII, by bit operations, for the pre-tokenizers of BLOOM and
// Llama-3. A block begins where a pre-token begins, and these regular expressions never look back:
// so no state goes from block to block. Bit i is the byte i of the block.
#pragma once

#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)
#include <bit>

namespace lm::text {

struct AsciiBlock {
    u64 letter, number, space, line_end, blank, apostrophe;
    u64 stop;     // BLOOM's punctuation: ( ) | . , ! ?
    u32 n;        // bytes that count: up to the first one beyond ASCII, or the end of the text
    bool at_end;  // the text ends behind them
};

LM_AVX2_INLINE u64 low_bits(u32 n) {
    return n >= 64 ? ~u64{0} : (u64{1} << n) - 1;
}

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

// Where the run of `mask` that ends before bit `end` begins; `end` if there is none.
LM_AVX2_INLINE u32 run_begin(u64 mask, u32 end) {
    return 64 - static_cast<u32>(std::countl_zero(~mask & low_bits(end)));
}

// The pre-token starts that what comes behind an unfinished block cannot change: none in a run of
// whitespace that it may go on.
LM_AVX2_INLINE u64 certain_starts(const AsciiBlock& b, u64 starts) {
    const bool open = !b.at_end && (b.space >> (b.n - 1) & 1) != 0;
    return open ? starts & low_bits(run_begin(b.space, b.n) + 1) : starts;
}

// BLOOM: a word takes the blank before it along; what lies between words is a pre-token.
LM_AVX2_INLINE u64 bloom_starts(const AsciiBlock& b) {
    const u64 gap = b.space | b.stop;
    const u64 word = low_bits(b.n) & ~gap;
    const u64 word_begins = word & ~(word << 1);
    return (word_begins & ~(b.blank << 1)) | (b.blank & word_begins >> 1) | (gap & ~(gap << 1));
}

// Groups of three from the beginning of each run.
LM_AVX2_INLINE u64 number_starts(u64 number) {
    u64 starts = number & ~(number << 1);
    // Digits with three before them; of each run the first such begins a group.
    u64 more = number & number << 1 & number << 2 & number << 3;
    while (more != 0) {
        const auto at = static_cast<u32>(std::countr_zero(more));
        starts |= u64{1} << at;
        more &= ~low_bits(std::min(at + 3, 64U));
    }
    return starts;
}

// Llama-3 and Qwen2; contractions are still to be looked at, where a pre-token starts with an
// apostrophe.
LM_AVX2_INLINE u64 llama3_starts(const AsciiBlock& b, u32 most_digits) {
    const u64 other = low_bits(b.n) & ~(b.letter | b.number | b.space);
    // Line ends right behind others belong to their pre-token: the sum carries through such runs.
    const u64 absorbed = b.line_end & ~(b.line_end + (other << 1 & b.line_end));
    u64 space = b.space & ~absorbed;
    u64 starts = 0;
    // From the beginning of a run of whitespace to its last line end is one pre-token.
    for (u64 ends = b.line_end & ~absorbed; ends != 0;) {
        const u32 last = 63 - static_cast<u32>(std::countl_zero(ends));
        const u32 first = run_begin(space, last);
        starts |= u64{1} << first;
        space &= ~(low_bits(last + 1) & ~low_bits(first));
        ends &= low_bits(first);
    }
    // What is left of a run: all but its last character, and that with what follows, if it may.
    starts |= space & ~(space << 1);
    starts |= space & ~(space >> 1);
    if (b.at_end && (space >> (b.n - 1) & 1) != 0) starts &= low_bits(run_begin(space, b.n) + 1);
    const u64 joined = (b.blank & space) << 1;
    const u64 other_begins = other & ~(other << 1);
    starts |= other_begins & ~joined;
    const u64 lone = other_begins & ~joined & ~(other >> 1);
    starts |= b.letter & ~(b.letter << 1) & ~((space | lone) << 1);
    starts |= most_digits == 1 ? b.number : number_starts(b.number);
    return starts;
}

}  // namespace lm::text

#endif
