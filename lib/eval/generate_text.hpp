// SPDX-License-Identifier: Apache-2.0
// Continues a prompt token by token.
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
    double prompt_s = 0;  // time to compute the prompt
    double tokens_s = 0;  // time to compute the tokens after the first
};

// A function that receives each part of the text as soon as no later token can change this part.
// May be empty.
using TextSink = std::function<void(std::string_view text)>;

// Throws Error(usage) when the prompt is longer than the context, has an id beyond the vocabulary,
// or is empty while the end-of-document id is not known.
void check_prompt(const GenerateRequest& request, const spec::ModelConfig& model,
                  const ModelTokenizer& tokenizer);

// Returns the text that continues a checked prompt. Overwrites the sequence in the engine.
Generated generate(Engine& engine, const ModelTokenizer& tokenizer, const GenerateRequest& request,
                   const Sampling& sampling, const TextSink& sink);

}  // namespace lm::eval
