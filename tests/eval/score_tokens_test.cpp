// SPDX-License-Identifier: Apache-2.0
#include "eval/score_tokens.hpp"

#include <numeric>

#include "../support/temp_dir.hpp"
#include "base/version.hpp"
#include "eval/score_data.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "text/byte_tokenizer.hpp"
#include "text/choice/tokenizer_choice.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"

using namespace lm;
using eval::TokenPair;

namespace {

// Records its calls. The log-probability of a token is minus the number of tokens before it.
class RecordingEngine final : public eval::Engine {
  public:
    explicit RecordingEngine(i64 context) : context_(context) {}
    const eval::Residency& residency() const override { return residency_; }
    i64 vocab_size() const override { return 300; }
    i64 context() const override { return context_; }
    i64 sequences() const override { return 1; }
    i64 sequence_bytes() const override { return 0; }
    std::span<const float> append_each(std::span<const eval::NextToken>) override { return {}; }
    void run(i64, TaskRef) override {}
    void select(i64) override {}
    i64 length() const override { return std::ssize(tokens); }
    void truncate(i64 length) override { tokens.resize(static_cast<size_t>(length)); }
    std::span<const float> append(std::span<const i32>) override { return {}; }
    void score(std::span<const i32> added, std::span<const i32> targets,
               std::span<eval::TokenScore> scores) override {
        tokens.insert(tokens.end(), added.begin(), added.end());
        REQUIRE(length() <= context_);
        n_computed += std::ssize(added);
        for (size_t i = 0; i < targets.size(); ++i) {
            const size_t before = tokens.size() - targets.size() + i + 1;
            scores[i] = {-static_cast<double>(before), targets[i] != 7};
            scored.push_back(targets[i]);
        }
    }

    std::vector<i32> tokens;
    std::vector<i32> scored;
    i64 n_computed = 0;

  private:
    i64 context_;
    eval::Residency residency_;
};

// The byte tokenizer, which counts the texts that it encodes.
class CountingTokenizer final : public text::Tokenizer {
  public:
    std::string_view type() const override { return bytes_->type(); }
    i64 vocab_size() const override { return bytes_->vocab_size(); }
    std::optional<i32> eod() const override { return bytes_->eod(); }
    const std::string& digest() const override { return bytes_->digest(); }
    std::unique_ptr<text::Encoder> make_encoder(i64 text_bytes) const override {
        ++n_encoded;
        return bytes_->make_encoder(text_bytes);
    }
    bool has_token(i32 id) const override { return bytes_->has_token(id); }
    std::string_view token(i32 id) const override { return bytes_->token(id); }

    mutable i64 n_encoded = 0;

  private:
    std::shared_ptr<const text::Tokenizer> bytes_ = text::make_byte_tokenizer();
};

std::vector<i32> numbers(i32 n) {
    std::vector<i32> result(static_cast<size_t>(n));
    std::iota(result.begin(), result.end(), 10);
    return result;
}

}  // namespace

TEST_CASE("each token of a document is scored once") {
    for (const i32 n : {1, 3, 4, 5, 8, 11}) {
        RecordingEngine engine(4);
        const auto score = eval::score_document(engine, numbers(n), 2);
        CHECK(score.tokens == n);
        CHECK(engine.scored == numbers(n));
        // The tokens of a whole window have 1, 2, 3 and 4 tokens of context. The tokens of the last
        // window have as many as fit.
        double sum = -10.0 * (n / 4);
        for (i32 i = 0; i < n % 4; ++i) sum -= n < 4 ? i + 1 : 4 - (n % 4 - 1 - i);
        CHECK(score.log_probability == sum);
    }
    RecordingEngine engine(4);
    CHECK(eval::score_document(engine, numbers(3), -1).tokens == 2);
    CHECK(eval::score_document(engine, {}, 2).tokens == 0);
}

TEST_CASE("tokens that pairs have in common are computed once") {
    RecordingEngine engine(20);
    const std::vector<TokenPair> pairs{{{1, 2, 3}, {4}}, {{1, 2, 3}, {4, 7}}, {{1, 2, 3}, {6}}};
    const auto scores = eval::score_pairs(engine, pairs, "here");
    CHECK(engine.scored == std::vector<i32>{4, 4, 7, 6});
    CHECK(engine.n_computed == 2 + 1 + 2 + 1);
    CHECK(scores[0].log_probability == -3);
    CHECK(scores[1].log_probability == -7);
    CHECK(scores[0].greedy);
    CHECK_FALSE(scores[1].greedy);
}

TEST_CASE("a context that is too long loses its first tokens") {
    RecordingEngine engine(5);
    const std::vector<TokenPair> pairs{{numbers(9), {1, 2}}};
    const auto scores = eval::score_pairs(engine, pairs, "here");
    CHECK(engine.tokens == std::vector<i32>{15, 16, 17, 18, 1});
    CHECK(scores[0].log_probability == -4 - 5);
    const auto error = test::caught([&] {
        const std::vector<TokenPair> longer{{{1}, numbers(6)}};
        eval::score_pairs(engine, longer, "here");
    });
    CHECK(error.says("here: ", "6 tokens", "5 tokens"));
}

TEST_CASE("spaces at the end of a context belong to the continuation") {
    const auto tokenizer = text::make_byte_tokenizer();
    const auto pair = eval::encode_pair(*tokenizer, "a  ", "b", 256, "here");
    CHECK(pair.context == std::vector<i32>{'a'});
    CHECK(pair.continuation == std::vector<i32>{' ', ' ', 'b'});
    const auto empty = eval::encode_pair(*tokenizer, "", "b", 256, "here");
    CHECK(empty.context == std::vector<i32>{256});
    CHECK(empty.continuation == std::vector<i32>{'b'});
    CHECK(test::caught([&] {
              eval::encode_pair(*tokenizer, " ", "b", -1, "here");
          }).says("here: ", "empty context"));
}

TEST_CASE("what the tokenizer puts before and after a text is not scored") {
    // GPT-2's vocabulary with a template, as Llama's tokenizer.json has one.
    io::Json json;
    json["version"] = "1.0";
    json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    json["added_tokens"] = {{{"id", 50256}, {"content", "<|endoftext|>"}, {"special", true}}};
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single",
                               {{{"SpecialToken", {{"id", "A"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                {{"SpecialToken", {{"id", "B"}, {"type_id", 0}}}}}},
                              {"special_tokens",
                               {{"A", {{"id", "A"}, {"ids", {50256}}, {"tokens", {"A"}}}},
                                {"B", {{"id", "B"}, {"ids", {50255}}, {"tokens", {"B"}}}}}}};
    json["model"] = {{"type", "BPE"},
                     {"vocab", io::read_json(share_file("tokenizers/gpt2/vocab.json"))},
                     {"merges", io::Json::array()}};
    const test::TempDir dir;
    io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
    const std::shared_ptr<const text::Tokenizer> tokenizer =
        text::load_hf_tokenizer(dir.path(), text::SpecialInText::parse);
    const auto pair = eval::encode_pair(*tokenizer, "a ", "b", 7, "here");
    CHECK(pair.context.size() == 2);
    CHECK(pair.context.front() == 50256);
    CHECK(pair.continuation.size() == 2);
    const auto empty = eval::encode_pair(*tokenizer, "", "b", 7, "here");
    CHECK(empty.context == std::vector<i32>{50256});
    CHECK(empty.continuation.size() == 1);
    const eval::ModelTokenizer known{tokenizer, 7};
    CHECK(known.before(tokenizer->encode("a")) == -1);
    CHECK(known.before(std::vector<i32>{1, 2}) == 7);
}

TEST_CASE("requests and questions are tokenized once") {
    const test::TempDir dir;
    io::write_file(dir / "data.jsonl",
                   R"({"context": "ab", "continuation": "c"})"
                   "\n"
                   R"({"text": "abc"})"
                   "\n"
                   R"({"context": "a", "choices": ["b", "cd"], "label": 1})",
                   io::Overwrite::yes);
    const auto data = eval::ScoreData::open(dir / "data.jsonl", {});
    const auto tokenizer = std::make_shared<CountingTokenizer>();
    const eval::ModelTokenizer model{tokenizer, 256};
    RecordingEngine engine(20);
    data->tokenize(model, engine.vocab_size(), engine.context());
    const i64 n_encoded = tokenizer->n_encoded;
    CHECK(n_encoded > 0);
    CHECK(data->score(0, engine, model)["log_probability"] == -2);
    CHECK(data->score(2, engine, model)["choices"][1]["tokens"] == 2);
    CHECK(tokenizer->n_encoded == n_encoded);
    CHECK(data->score(1, engine, model)["tokens"] == 3);
    CHECK(tokenizer->n_encoded == n_encoded + 1);
}
