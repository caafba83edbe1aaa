// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers cut text into pre-tokens; BPE merges within pre-tokens only. A pre-tokenizer walks
// over one text at a time in constant memory. Each thread has its own and reuses it.
#pragma once

#include <memory>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

// The values are in the digests of tokenizers: add new ones at the end.
enum class PretokenizerRule {
    none,  // the whole text is one pre-token
    // GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    gpt2,
    llama3,  // see rules.hpp
    qwen2,
    bloom,
    starcoder,  // every number is a pre-token; the text between two numbers is cut as by gpt2
    digits,     // as starcoder, with runs of numbers as pre-tokens
    o200k,      // see rules.hpp
    tekken,
    qwen3_5,  // as qwen2, with marks as letters
    // See staged.hpp.
    deepseek_v3,
    deepseek_coder,
    falcon,
};

class Pretokenizer {
  public:
    virtual ~Pretokenizer() = default;

    // Begins a walk over `text`, which must stay unchanged until the walk ends and be shorter than
    // 4 GiB. Invalid UTF-8 is safe: each invalid byte counts as a character of class "other".
    virtual void start(std::string_view text) = 0;

    // Writes the ends of the next pre-tokens, at most `capacity` (at least 128) of them, in
    // ascending order, and returns their number; 0 at the end of the walk. Pre-tokens are not empty
    // and cover the text: the first begins at 0, each other one at the end of the previous one.
    virtual i64 next(u32* ends, i64 capacity) = 0;
};

// Return the fastest implementation for this machine, and the portable one.
std::unique_ptr<Pretokenizer> make_pretokenizer(PretokenizerRule rule);
std::unique_ptr<Pretokenizer> make_scalar_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
