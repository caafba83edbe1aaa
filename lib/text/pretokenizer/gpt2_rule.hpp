// SPDX-License-Identifier: Apache-2.0
// GPT-2's pretokenizer as a hand-written walk over code points: linear in any text, and the truth
// that the vectorised one is tested against.
#pragma once

#include "text/unicode/char_reader.hpp"

namespace lm::text {

// The end of the piece that begins at `begin` < text size.
u32 gpt2_piece_end(const CharReader& chars, u32 begin);

// StarCoder and SmolLM: each character of class number is a piece, and each stretch between two of
// them is cut as a text of its own, so that spaces before a number stay together.
u32 starcoder_piece_end(const CharReader& chars, u32 begin);
// The same, but characters of class number that stand together are one piece.
u32 digits_piece_end(const CharReader& chars, u32 begin);

}  // namespace lm::text
