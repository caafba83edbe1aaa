// SPDX-License-Identifier: Apache-2.0
// Pretokenizers: cutting text into the pre-tokens that BPE merges within. A pre-tokenizer is a
// stateful walk over one text in constant memory; one per thread, reused from text to text.
#pragma once

#include <memory>
#include <string_view>

#include "base/types.hpp"

namespace lm::text {

// Part of a tokenizer's digest: new ones go to the end.
enum class PretokenizerRule {
    none,  // the whole text is one pre-token
    // GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    gpt2,
    llama3,  // see rules.hpp
    qwen2,
    bloom,
    starcoder,  // every number is a pre-token; between them GPT-2's, text by text
    digits,     // the same with runs of numbers as pre-tokens
    o200k,      // see rules.hpp
    tekken,
    qwen3_5,  // Qwen2's with marks as letters
    // See staged.hpp.
    deepseek_v3,
    deepseek_coder,
    falcon,
};

class Pretokenizer {
  public:
    virtual ~Pretokenizer() = default;

    // `text` stays alive and unchanged until the walk is over; shorter than 4 GiB. It should be
    // valid UTF-8: bytes that are not count as characters of class "other", and nothing worse
    // happens.
    virtual void start(std::string_view text) = 0;

    // Writes the ends of the next pre-tokens, ascending, at most `capacity` (at least 128) of them,
    // and returns how many; 0 when the walk is over. The first pre-token begins at 0, every other
    // one where its forerunner ended, the last one ends with the text; no pre-token is empty.
    virtual i64 next(u32* ends, i64 capacity) = 0;
};

// The fastest implementation for this machine, and the portable one.
std::unique_ptr<Pretokenizer> make_pretokenizer(PretokenizerRule rule);
std::unique_ptr<Pretokenizer> make_scalar_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
