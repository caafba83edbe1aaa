// SPDX-License-Identifier: Apache-2.0
// Continues a prompt, one token after another.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
    u64 sequence = 0;         // number of the prompt, for the random numbers
};

// Why a text ended: a stop text, the end of document, the number of tokens, the model's context.
enum class Finish { stop, end_of_document, length, context };
std::string_view name_of(Finish finish);

struct Generated {
    std::vector<i32> ids;  // with the tokens of a stop text, without the end of document
    std::string text;      // empty without a tokenizer
    Finish finish = Finish::length;
    double prompt_s = 0;  // time to compute the prompt
    double tokens_s = 0;  // time to compute the tokens after the first
};

// Receives each part of the text as soon as no later token can change it. Optional: may be null.
using TextSink = std::function<void(std::string_view text)>;

// Throws Error(usage) when the prompt does not fit into the context, has an id beyond the
// vocabulary, or is empty without a known end of document.
void check_prompt(const GenerateRequest& request, const spec::ModelConfig& model,
                  const ModelTokenizer& tokenizer);

// Generates the text of a checked prompt. Overwrites the engine's sequence.
Generated generate(Engine& engine, const ModelTokenizer& tokenizer, const GenerateRequest& request,
                   const Sampling& sampling, const TextSink& sink);

}  // namespace lm::eval
