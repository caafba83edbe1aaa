// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers cut text into pre-tokens. BPE merges only within a pre-token. A pre-tokenizer
// walks over one text at a time in constant memory. Each thread needs its own pre-tokenizer, and
// reuses it.
#pragma once

#include <memory>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

// The digests of tokenizers contain the numbers of these values, so add new rules at the end.
enum class PretokenizerRule {
    none,  // the whole text is one pre-token
    // GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    gpt2,
    llama3,  // see pretoken_rules.hpp
    qwen2,
    bloom,
    starcoder,  // each number character is a pre-token; gpt2 cuts the text between them
    digits,     // like starcoder, but each run of number characters is a pre-token
    o200k,      // see pretoken_rules.hpp
    tekken,
    qwen3_5,  // like qwen2, but marks count as letters
    // Sequences of stages.
    deepseek_v3,
    deepseek_coder,
    falcon,
};

class Pretokenizer {
  public:
    virtual ~Pretokenizer() = default;

    // Begins a walk over `text`, which must be shorter than 4 GiB and stay unchanged until the walk
    // ends. Invalid UTF-8 is safe, because each invalid byte counts as a character of class
    // "other".
    virtual void start(std::string_view text) = 0;

    // Writes the ends of the next pre-tokens in ascending order and returns their number, or 0 at
    // the end of the walk. `capacity` is the most ends to write, at least 128. Pre-tokens are not
    // empty and cover the text: the first begins at 0, and each later one at the end of the
    // previous one.
    virtual i64 next(u32* ends, i64 capacity) = 0;
};

// Returns the portable implementation of the rule.
std::unique_ptr<Pretokenizer> make_scalar_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
