// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include "text/pretokenizer/x86/char_masks.hpp"

#if defined(__x86_64__)

namespace lm::text {

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

}  // namespace lm::text

#endif
