// SPDX-License-Identifier: Apache-2.0
// The pretokenizers of tokenizer.json files, as hand-written walks over code points. Each function
// gives the end of the piece that begins at `begin` < text size; all are linear in the text.
#pragma once

#include "text/chars.hpp"

namespace lm::text {

// Llama-3 and GPT-4 (most_digits 3), Qwen2 (most_digits 1):
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
u32 llama3_piece_end(const CharReader& chars, u32 begin, int most_digits);

// BLOOM:  ?[^(\s|[.,!?…。，、।۔،])]+  where the inner brackets are a nested class: everything but
// whitespace, "(", ")", "|" and the punctuation listed. What lies between matches is a piece too.
u32 bloom_piece_end(const CharReader& chars, u32 begin);

}  // namespace lm::text
