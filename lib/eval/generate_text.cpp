// SPDX-License-Identifier: Apache-2.0
#include "eval/generate_text.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "eval/text_stream.hpp"

namespace lm::eval {
void check_prompt(const GenerateRequest& request, const spec::ModelConfig& model,
                  const ModelTokenizer& tokenizer) {
    check_ids(request.prompt, model.vocab_size, request.object);
    if (std::ssize(request.prompt) > model.max_positions) {
        usage_error(request.object,
                    "has {} tokens, but the model's context is {} tokens: shorten the prompt",
                    request.prompt.size(), model.max_positions);
    }
    if (request.prompt.empty() && tokenizer.end_of_document < 0) {
        usage_error(request.object,
                    "is empty, and the end-of-document id of the model is unknown: give a prompt");
    }
}

Generated generate(Engine& engine, const ModelTokenizer& tokenizer, const GenerateRequest& request,
                   const Sampling& sampling, const TextSink& sink) {
    std::vector<i32> prompt = request.prompt;
    if (prompt.empty()) prompt.push_back(tokenizer.end_of_document);
    Generated result;
    TextStream stream(request.stops);
    Sampler sampler(sampling, request.sequence);
    const auto emit = [&](const std::string& text) {
        result.text += text;
        if (sink && !text.empty()) sink(text);
    };
    engine.truncate(0);
    Stopwatch watch;
    std::span<const i32> next = prompt;
    i32 token = -1;
    while (true) {
        if (std::ssize(result.ids) >= request.max_new_tokens) break;
        if (engine.length() + std::ssize(next) > engine.context()) {
            result.finish = Finish::context;
            break;
        }
        const auto logits = engine.append(next);
        if (result.ids.empty()) {
            result.prompt_s = watch.elapsed_s();
            watch.restart();
        }
        token = sampler.choose(logits, std::ssize(result.ids));
        next = {&token, 1};
        if (token == tokenizer.end_of_document && !request.ignore_end) {
            result.finish = Finish::end_of_document;
            break;
        }
        result.ids.push_back(token);
        if (!tokenizer.tokenizer) continue;
        std::string bytes;
        tokenizer.tokenizer->decode(next, bytes);
        emit(stream.append(bytes));
        if (stream.stopped()) {
            result.finish = Finish::stop;
            break;
        }
    }
    result.tokens_s = watch.elapsed_s();
    emit(stream.finish());
    return result;
}

}  // namespace lm::eval
