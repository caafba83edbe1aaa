// SPDX-License-Identifier: Apache-2.0
// The log-probability of tokens under a model: of a whole document, and of a continuation after a
// context, as lm-evaluation-harness defines them.
#pragma once

#include <string>
#include <vector>

#include "eval/engine.hpp"
#include "eval/open_model.hpp"

namespace lm::eval {

// The score of several tokens.
struct TokensScore {
    double log_probability = 0;  // sum of the natural logarithms
    i64 tokens = 0;              // number of tokens in the sum
    bool greedy = true;          // no other token was more probable than any of them
};

// Returns the score of all tokens of a document, as loglikelihood_rolling() of
// lm-evaluation-harness computes it. Consecutive windows have the length of the model's context.
// The first token of a window has one token of context: the last token of the previous window, or
// in the first window `before`, the end-of-document id. If `before` is -1, the first token of the
// document has no score. The last window scores the remaining tokens with as much context as fits.
TokensScore score_document(Engine& engine, std::span<const i32> tokens, i32 before);

struct TokenPair {
    std::vector<i32> context;  // not empty
    std::vector<i32> continuation;
};

// Encodes both texts together. White space at the end of the context belongs to the continuation,
// as in _encode_pair() of lm-evaluation-harness. What the tokenizer puts before a text belongs to
// the context, and what it puts after a text to neither. If it puts nothing before a text, the
// token `before` replaces a context that is empty or only white space; if `before` is -1, such a
// context throws Error(usage) naming `object`.
TokenPair encode_pair(const text::Tokenizer& tokenizer, const std::string& context,
                      const std::string& continuation, i32 before, const std::string& object);

// Throws what score_pairs() throws for this pair and a model of this size.
void check_pair(const TokenPair& pair, i64 vocab_size, i64 context, const std::string& object);

// Returns the scores of the continuations of several pairs. The model reads the common prefix of
// all pairs only once. The model reads all tokens of a pair except the last one. If these are n
// tokens more than the model's context, the first n tokens are dropped. Throws Error(usage) naming
// `object` when a continuation alone is longer than the model's context, or when a pair has an id
// beyond the vocabulary. Throws Error(failure) when a continuation is empty.
std::vector<TokensScore> score_pairs(Engine& engine, std::span<const TokenPair> pairs,
                                     const std::string& object);

}  // namespace lm::eval
