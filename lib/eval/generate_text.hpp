// SPDX-License-Identifier: Apache-2.0
// Continues prompts token by token.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/named.hpp"
#include "eval/engine.hpp"
#include "eval/open_model.hpp"
#include "eval/sampler.hpp"

namespace lm::eval {

struct GenerateRequest {
    std::vector<i32> prompt;  // empty: the text begins after an end of document
    std::string object;       // for messages: "--prompt", "FILE:3"
    i64 max_new_tokens = 100;
    std::vector<std::string> stops;
    bool ignore_end = false;  // continue after an end of document
    u64 sequence = 0;         // number of the prompt; selects its random numbers
};

// The reason why a text ended: a stop text, the end of document, the requested number of tokens, or
// the end of the model's context.
enum class Finish { stop, end_of_document, length, context };
inline constexpr std::array finishes{
    Named{Finish::stop, "stop"}, Named{Finish::end_of_document, "end_of_document"},
    Named{Finish::length, "length"}, Named{Finish::context, "context"}};

struct Generated {
    std::vector<i32> ids;  // with the tokens of a stop text, without the end of document
    std::string text;      // empty without a tokenizer
    Finish finish = Finish::length;
};

// Throws Error(usage) when the prompt is longer than the context, has an id beyond the vocabulary,
// or is empty while the end-of-document id is not known.
void check_prompt(const GenerateRequest& request, const spec::ModelConfig& model,
                  const ModelTokenizer& tokenizer);

// Returns the largest length that the sequence of a request has, in tokens.
i64 sequence_length(const GenerateRequest& request, i64 context);

// The requests that generate() continues and the consumers of their texts.
struct Requests {
    // Returns the next checked request, which stays valid until done() gets it. Returns nullptr
    // when there is none; without `wait`, also when none is there yet.
    std::function<const GenerateRequest*(bool wait)> next;
    // Receives the text of a request that has ended. Requests may end in another order than they
    // began.
    std::function<void(const GenerateRequest&, const Generated&)> done;
    // Receives each part of a text as soon as no later token can change this part. May be empty.
    std::function<void(std::string_view part)> part;
};

struct GenerateTimes {
    double prompts_s = 0;  // time to compute the prompts
    double tokens_s = 0;   // time to compute the tokens after the first of each text
};

// Continues requests together, as many at a time as the engine has sequences. A text that ends
// frees its sequence for the next request. A text does not depend on the other requests: it has the
// bits of logits and the random numbers that it has alone. Overwrites the sequences in the engine.
GenerateTimes generate(Engine& engine, const ModelTokenizer& tokenizer, const Sampling& sampling,
                       const Requests& requests);

}  // namespace lm::eval
