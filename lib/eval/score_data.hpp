// SPDX-License-Identifier: Apache-2.0
// The data of lm-ckpt score: documents of an indexed dataset, or JSON Lines with documents,
// requests and multiple-choice questions; and the results as JSON.
#pragma once

#include <memory>
#include <string>

#include "eval/score_tokens.hpp"
#include "io/json.hpp"

namespace lm::eval {

struct ScoreDataOptions {
    std::string text_key = "text";  // member of a JSON line that holds a document
    i64 limit = 0;                  // use only the first `limit` items; 0: all
};

// The items to score. A line of JSON Lines has one of these forms:
//   {"text": TEXT}                                     a document
//   {"context": C, "continuation": C}                  a request
//   {"context": C, "choices": [C, ...], "label": N}    a question; "label" is optional
// where C is a text or a list of ids.
class ScoreData {
  public:
    virtual ~ScoreData() = default;
    // Opens PREFIX.bin and PREFIX.idx if `path` is PREFIX or PREFIX.bin and these files exist.
    // Otherwise opens JSON Lines, for "-" from standard input, and parses all lines. Throws
    // Error(usage) when `path` does not exist or has no JSON object, and Error(failure) naming the
    // first line that has another form.
    static std::unique_ptr<ScoreData> open(const std::string& path,
                                           const ScoreDataOptions& options);

    virtual i64 n_items() const = 0;
    virtual bool needs_tokenizer() const = 0;
    virtual const std::string& name() const = 0;      // the path, for messages
    virtual const std::string& identity() const = 0;  // a digest of the data
    // Tokenizes all requests and questions for score(). Throws an Error with the first items that
    // score() would refuse for a model of this size, so that none of them ends a long run.
    virtual void tokenize(const ModelTokenizer& tokenizer, i64 vocab_size, i64 context) = 0;
    // Scores one item, after tokenize() with the same tokenizer. Returns its line of the results:
    //   {"kind": "document", "index", "tokens", "bytes", "log_probability", "loss"}
    //   {"kind": "request", "index", "tokens", "log_probability", "greedy"}
    //   {"kind": "question", "index", "choices": [{"tokens", "characters", "log_probability",
    //    "greedy"}], "answer", "answer_normalized", "label", "correct", "correct_normalized"}
    // log_probability is the sum of natural logarithms. "bytes" is absent when the text is unknown.
    // answer is the index of the choice with the largest log_probability, answer_normalized the
    // index of the choice with the largest log_probability / characters. Spaces at the start of a
    // choice do not count as characters. For a choice of ids, "characters" is the number of ids.
    virtual io::OrderedJson score(i64 item, Engine& engine,
                                  const ModelTokenizer& tokenizer) const = 0;
};

// Adds up lines of results, which ScoreData::score() has returned or a file has stored.
class ScoreTotals {
  public:
    void add(const io::OrderedJson& line);
    // Returns {"kind": "total", ...}. Documents add the members documents, tokens, bytes, loss (per
    // token), perplexity and bits_per_byte. Requests add the members requests, request_tokens,
    // request_loss (per token) and greedy (a share of the requests). Questions add the members
    // questions, accuracy and accuracy_normalized; both accuracies are shares of the questions with
    // a label. A member whose value is unknown is absent.
    io::OrderedJson to_json() const;

  private:
    struct Texts {
        i64 n = 0;
        i64 tokens = 0;
        i64 bytes = 0;
        bool all_bytes = true;  // the number of bytes of every document is known
        double log_probability = 0;
    };
    Texts documents_, requests_;
    i64 n_greedy_ = 0;
    i64 n_questions_ = 0, n_labels_ = 0, n_correct_ = 0, n_correct_normalized_ = 0;
};

}  // namespace lm::eval
