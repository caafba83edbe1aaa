// SPDX-License-Identifier: Apache-2.0
// The pretokenizers that cut words where lower case turns to upper case: o200k (GPT-4o, gpt-oss,
// Llama-4) and Tekken (Mistral-Nemo), as a walk over code points, linear in any text.
#pragma once

#include "text/unicode/char_reader.hpp"

namespace lm::text {

struct CasedRule {
    bool contractions;  // at the end of words
    int most_digits;
};

// With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C the contractions:
// [^\r\n\p{L}\p{N}]?U*L+C?|[^\r\n\p{L}\p{N}]?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
u32 cased_piece_end(const CharReader& chars, u32 begin, CasedRule rule);

}  // namespace lm::text
