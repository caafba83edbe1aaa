// SPDX-License-Identifier: Apache-2.0
#include "eval/generate_text.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "eval/text_stream.hpp"

namespace lm::eval {
namespace {

// The text that continues the prompt of a request.
class Continuation {
  public:
    Continuation(const GenerateRequest& request, const ModelTokenizer& tokenizer,
                 const Sampling& sampling, const std::function<void(std::string_view)>& part)
        : request_(request),
          tokenizer_(tokenizer),
          part_(part),
          stream_(request.stops),
          sampler_(sampling, request.sequence) {}

    const GenerateRequest& request() const { return request_; }
    const Generated& result() const { return result_; }
    std::vector<i32> prompt() const {
        return request_.prompt.empty() ? std::vector<i32>{tokenizer_.end_of_document}
                                       : request_.prompt;
    }
    i32 token() const { return token_; }  // the last chosen token

    // Chooses the next token.
    void choose(std::span<const float> logits) {
        token_ = sampler_.choose(logits, std::ssize(result_.ids));
    }

    // Adds the chosen token to the text. Returns whether the text has ended. `room`: the number of
    // tokens that still fit into the sequence.
    bool add(i64 room) {
        if (token_ == tokenizer_.end_of_document && !request_.ignore_end)
            return end(Finish::end_of_document);
        result_.ids.push_back(token_);
        if (tokenizer_.tokenizer) {
            std::string bytes;
            tokenizer_.tokenizer->decode({&token_, 1}, bytes);
            emit(stream_.append(bytes));
            if (stream_.stopped()) return end(Finish::stop);
        }
        if (is_long_enough()) return end(Finish::length);
        return room < 1 && end(Finish::context);
    }

    bool is_long_enough() const { return std::ssize(result_.ids) >= request_.max_new_tokens; }

  private:
    bool end(Finish finish) {
        result_.finish = finish;
        emit(stream_.finish());
        return true;
    }
    void emit(const std::string& text) {
        result_.text += text;
        if (part_ && !text.empty()) part_(text);
    }

    const GenerateRequest& request_;
    const ModelTokenizer& tokenizer_;
    const std::function<void(std::string_view)>& part_;
    TextStream stream_;
    Sampler sampler_;
    Generated result_;
    i32 token_ = -1;
};

class Generation {
  public:
    Generation(Engine& engine, const ModelTokenizer& tokenizer, const Sampling& sampling,
               const Requests& requests)
        : engine_(engine),
          tokenizer_(tokenizer),
          sampling_(sampling),
          requests_(requests),
          texts_(static_cast<size_t>(engine.sequences())) {}

    GenerateTimes run() {
        while (begin_texts()) add_tokens();
        return times_;
    }

  private:
    // Begins texts in the free sequences. Returns whether there is a text to continue.
    bool begin_texts() {
        auto n = std::ranges::count_if(texts_, [](const auto& text) { return text.has_value(); });
        for (i64 sequence = 0; sequence < std::ssize(texts_); ++sequence) {
            while (!at(sequence)) {
                const GenerateRequest* const request = requests_.next(n == 0);
                if (request == nullptr) return n > 0;
                if (begin(sequence, *request)) ++n;
            }
        }
        return true;
    }

    // Computes the prompt and the first token. Returns whether the text continues.
    bool begin(i64 sequence, const GenerateRequest& request) {
        Continuation& text = at(sequence).emplace(request, tokenizer_, sampling_, requests_.part);
        bool ended = text.is_long_enough();
        if (!ended) {
            const Stopwatch watch;
            engine_.select(sequence);
            engine_.truncate(0);
            text.choose(engine_.append(text.prompt()));
            times_.prompts_s += watch.elapsed_s();
            ended = text.add(engine_.context() - engine_.length());
        }
        if (ended) finish(sequence);
        return !ended;
    }

    // Adds a token to each text.
    void add_tokens() {
        const Stopwatch watch;
        next_.clear();
        for (i64 sequence = 0; sequence < std::ssize(texts_); ++sequence) {
            if (at(sequence)) next_.push_back({sequence, at(sequence)->token()});
        }
        const auto logits = engine_.append_each(next_);
        const auto width = static_cast<size_t>(engine_.vocab_size());
        engine_.run(std::ssize(next_), [&](i64 i, int) {
            const auto row = static_cast<size_t>(i);
            at(next_[row].sequence)->choose(logits.subspan(row * width, width));
        });
        times_.tokens_s += watch.elapsed_s();
        for (const NextToken& each : next_) {
            engine_.select(each.sequence);
            if (at(each.sequence)->add(engine_.context() - engine_.length())) finish(each.sequence);
        }
    }

    void finish(i64 sequence) {
        requests_.done(at(sequence)->request(), at(sequence)->result());
        at(sequence).reset();
    }

    std::optional<Continuation>& at(i64 sequence) { return texts_[static_cast<size_t>(sequence)]; }

    Engine& engine_;
    const ModelTokenizer& tokenizer_;
    const Sampling& sampling_;
    const Requests& requests_;
    std::vector<std::optional<Continuation>> texts_;  // of each sequence
    std::vector<NextToken> next_;
    GenerateTimes times_;
};

}  // namespace

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

i64 sequence_length(const GenerateRequest& request, i64 context) {
    const i64 n = std::max<i64>(1, std::ssize(request.prompt));
    return n + std::min(context - n, request.max_new_tokens);
}

GenerateTimes generate(Engine& engine, const ModelTokenizer& tokenizer, const Sampling& sampling,
                       const Requests& requests) {
    return Generation(engine, tokenizer, sampling, requests).run();
}

}  // namespace lm::eval
