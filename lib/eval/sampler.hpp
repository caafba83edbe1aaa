// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace lm::eval {

// Sampling divides the logits by the temperature and keeps the top_k most probable tokens. It then
// scales the probabilities of these tokens to the sum 1, and keeps the fewest most probable tokens
// whose probabilities sum to at least top_p (Holtzman et al. 2020, "The curious case of neural text
// degeneration"), as transformers' generate() does.
struct Sampling {
    double temperature = 0;  // 0: greedy, the most probable token
    i64 top_k = 0;           // 0: all
    double top_p = 1;
    u64 seed = 1234;
};

class Sampler {
  public:
    // `sequence` is the number of the prompt. Each prompt has random numbers of its own.
    Sampler(const Sampling& sampling, u64 sequence);

    // Returns token number `index` of the sequence. The token depends only on the arguments, the
    // sampling options and the number of the prompt. When logits are equal, the smaller id counts
    // as more probable. Throws Error(failure) when the largest logit is not finite.
    i32 choose(std::span<const float> logits, i64 index);

  private:
    i32 sample(std::span<const float> logits, float largest, i64 index);

    Sampling sampling_;
    u64 key_;
    std::vector<i32> ids_;  // candidates
    std::vector<double> weights_;
};

}  // namespace lm::eval
