// SPDX-License-Identifier: Apache-2.0
#include "eval/score_data.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/problem_list.hpp"
#include "base/utf8.hpp"
#include "data/indexed/dataset_identity.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/file.hpp"

namespace lm::eval {
namespace {

// Returns the line of a document: its log-probability, its bytes (`n_bytes` -1: unknown), and the
// loss per token.
io::OrderedJson document_line(i64 item, const TokensScore& score, i64 n_bytes) {
    io::OrderedJson line{{"kind", "document"}, {"index", item}, {"tokens", score.tokens}};
    if (n_bytes >= 0) line["bytes"] = n_bytes;
    line["log_probability"] = score.log_probability;
    if (score.tokens > 0) {
        line["loss"] = -score.log_probability / static_cast<double>(score.tokens);
    }
    return line;
}

// ---- indexed datasets --------------------------------------------------------------------------

class DatasetItems final : public ScoreData {
  public:
    DatasetItems(data::IndexedDataset dataset, std::string identity, i64 limit)
        : dataset_(std::move(dataset)),
          n_items_(limit > 0 ? std::min(limit, dataset_.n_documents()) : dataset_.n_documents()),
          identity_(std::move(identity)) {}
    i64 n_items() const override { return n_items_; }
    bool needs_tokenizer() const override { return false; }
    const std::string& name() const override { return dataset_.prefix(); }
    const std::string& identity() const override { return identity_; }
    void tokenize(const ModelTokenizer&, i64, i64) override {}  // score() reads the documents

    io::OrderedJson score(i64 item, Engine& engine,
                          const ModelTokenizer& tokenizer) const override {
        const auto [begin, end] = dataset_.document_extent(item);
        std::vector<i32> tokens(static_cast<size_t>(end - begin));
        dataset_.read(begin, std::span<i32>(tokens));
        check_ids(tokens, engine.vocab_size(), fmt::format("{}: document {}", name(), item));
        const TokensScore score = score_document(engine, tokens, tokenizer.before(tokens));
        return document_line(item, score, bytes_of(tokens, tokenizer));
    }

  private:
    // Returns the number of bytes of the text that the tokens encode, without ends of documents; -1
    // without a tokenizer.
    static i64 bytes_of(std::vector<i32>& tokens, const ModelTokenizer& tokenizer) {
        if (!tokenizer.tokenizer) return -1;
        std::erase(tokens, tokenizer.end_of_document);
        std::string text;
        tokenizer.tokenizer->decode(tokens, text);
        return std::ssize(text);
    }

    data::IndexedDataset dataset_;
    i64 n_items_;
    std::string identity_;
};

// ---- JSON Lines --------------------------------------------------------------------------------

// A context or a continuation, given as a text or as ids.
struct Passage {
    std::optional<std::string> text;
    std::vector<i32> ids;
};

struct Line {
    std::string where;  // "FILE:3"
    std::optional<std::string> document;
    Passage context;
    std::vector<Passage> choices;  // a request has one choice: its continuation
    bool question = false;
    std::optional<i64> label;
};

Passage passage_from(const io::Json& value, std::string_view name, const std::string& where) {
    if (value.is_array()) return {{}, io::json_as<std::vector<i32>>(value, name, where)};
    return {io::json_as<std::string>(value, name, where), {}};
}

Line parse_line(std::string_view text, const std::string& where, const std::string& text_key) {
    const io::Json object = io::parse_json(text, where);
    Line line{.where = where};
    if (object.is_object() && object.contains(text_key)) {
        line.document = io::json_get<std::string>(object, text_key, where);
        return line;
    }
    if (!object.is_object() || !object.contains("context")) {
        run_error(where,
                  "expected an object with '{}', or with 'context' and either 'continuation' or "
                  "'choices'",
                  text_key);
    }
    line.context = passage_from(object["context"], "'context'", where);
    line.question = object.contains("choices");
    if (!line.question) {
        const auto value = io::json_get<io::Json>(object, "continuation", where);
        line.choices.push_back(passage_from(value, "'continuation'", where));
    } else {
        for (const io::Json& choice :
             io::json_get<std::vector<io::Json>>(object, "choices", where)) {
            line.choices.push_back(passage_from(choice, "'choices'", where));
        }
        if (object.contains("label")) line.label = io::json_get<i64>(object, "label", where);
    }
    for (const Passage& choice : line.choices) {
        if (choice.text.has_value() == line.context.text.has_value()) continue;
        run_error(where,
                  "has both texts and lists of ids: give the context and all continuations in one "
                  "of the two forms");
    }
    const i64 n = std::ssize(line.choices);
    if (n == 0) run_error(where, "'choices' is empty: give at least one choice");
    if (line.label && (*line.label < 0 || *line.label >= n)) {
        run_error(where, "'label' is {}, expected 0 to {}", *line.label, n - 1);
    }
    return line;
}

// Returns the number of characters of a choice, without spaces at its start. For a choice of ids,
// returns the number of ids.
i64 characters_of(const Passage& choice) {
    if (!choice.text) return std::ssize(choice.ids);
    const std::string_view text = *choice.text;
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    i64 n = 0;
    for (size_t i = begin; i < text.size(); ++n) {
        i += static_cast<size_t>(decode_utf8(text.substr(i)).length);
    }
    return n;
}

class LineItems final : public ScoreData {
  public:
    LineItems(std::string name, std::string_view text, const ScoreDataOptions& options)
        : name_(std::move(name)), identity_(digest(text)) {
        i64 number = 0;
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = std::min(text.find('\n', begin), text.size());
            const std::string_view line = text.substr(begin, end - begin);
            begin = end + 1;
            ++number;
            if (line.find_first_not_of(" \t\r") == line.npos) continue;
            if (options.limit > 0 && std::ssize(lines_) >= options.limit) break;
            lines_.push_back(
                parse_line(line, fmt::format("{}:{}", name_, number), options.text_key));
        }
        if (lines_.empty()) usage_error(name_, "has no JSON object: give one in each line");
    }
    i64 n_items() const override { return std::ssize(lines_); }
    bool needs_tokenizer() const override {
        return std::ranges::any_of(
            lines_, [](const Line& line) { return line.document || line.context.text; });
    }
    const std::string& name() const override { return name_; }
    const std::string& identity() const override { return identity_; }
    void tokenize(const ModelTokenizer& tokenizer, i64 vocab_size, i64 context) override {
        constexpr size_t most = 10;
        Problems problems;
        pairs_.assign(lines_.size(), {});
        for (size_t i = 0; i < lines_.size() && problems.found().size() < most; ++i) {
            const Line& line = lines_[i];
            if (line.document) continue;
            for (const Passage& choice : line.choices) {
                problems.check([&] {
                    pairs_[i].push_back(pair_of(line, choice, tokenizer));
                    check_pair(pairs_[i].back(), vocab_size, context, line.where);
                });
            }
        }
        problems.throw_found();
    }

    io::OrderedJson score(i64 item, Engine& engine,
                          const ModelTokenizer& tokenizer) const override {
        const Line& line = lines_[static_cast<size_t>(item)];
        if (line.document) {
            const std::vector<i32> tokens = tokenizer.tokenizer->encode(*line.document);
            check_ids(tokens, engine.vocab_size(), line.where);
            return document_line(item, score_document(engine, tokens, tokenizer.before(tokens)),
                                 std::ssize(*line.document));
        }
        const auto scores = score_pairs(engine, pairs_.at(static_cast<size_t>(item)), line.where);
        if (line.question) return question_line(item, line, scores);
        return {{"kind", "request"},
                {"index", item},
                {"tokens", scores[0].tokens},
                {"log_probability", scores[0].log_probability},
                {"greedy", scores[0].greedy}};
    }

  private:
    static TokenPair pair_of(const Line& line, const Passage& choice,
                             const ModelTokenizer& tokenizer) {
        if (line.context.text) {
            return encode_pair(*tokenizer.tokenizer, *line.context.text, *choice.text,
                               tokenizer.end_of_document, line.where);
        }
        if (line.context.ids.empty())
            usage_error(line.where, "'context' is empty: give at least one id");
        return {line.context.ids, choice.ids};
    }

    static io::OrderedJson question_line(i64 item, const Line& line,
                                         const std::vector<TokensScore>& scores) {
        io::OrderedJson choices = io::OrderedJson::array();
        size_t answer = 0;
        size_t normalized = 0;
        const auto rate = [&](size_t i) {
            const auto n = static_cast<double>(std::max<i64>(1, characters_of(line.choices[i])));
            return scores[i].log_probability / n;
        };
        for (size_t i = 0; i < scores.size(); ++i) {
            if (scores[i].log_probability > scores[answer].log_probability) answer = i;
            if (rate(i) > rate(normalized)) normalized = i;
            choices.push_back({{"tokens", scores[i].tokens},
                               {"characters", characters_of(line.choices[i])},
                               {"log_probability", scores[i].log_probability},
                               {"greedy", scores[i].greedy}});
        }
        io::OrderedJson result{{"kind", "question"},
                               {"index", item},
                               {"choices", std::move(choices)},
                               {"answer", answer},
                               {"answer_normalized", normalized}};
        if (!line.label) return result;
        result["label"] = *line.label;
        result["correct"] = static_cast<i64>(answer) == *line.label;
        result["correct_normalized"] = static_cast<i64>(normalized) == *line.label;
        return result;
    }

    std::string name_;
    std::string identity_;
    std::vector<Line> lines_;
    // For each line, the pairs of tokenize(): one for each choice, none for a document.
    std::vector<std::vector<TokenPair>> pairs_;
};

}  // namespace

std::unique_ptr<ScoreData> ScoreData::open(const std::string& path,
                                           const ScoreDataOptions& options) {
    if (path == "-") {
        return std::make_unique<LineItems>("standard input",
                                           io::read_input("/dev/stdin", INT64_MAX), options);
    }
    std::string prefix = path;
    if (prefix.ends_with(".bin")) prefix.resize(prefix.size() - 4);
    if (io::exists(data::bin_path(prefix)) && io::exists(data::idx_path(prefix))) {
        const data::DatasetIdentity found = data::identity_of(prefix);
        return std::make_unique<DatasetItems>(data::IndexedDataset::open(prefix),
                                              found.digest.empty() ? found.samples : found.digest,
                                              options.limit);
    }
    if (!io::exists(path)) {
        usage_error(path,
                    "does not exist, and {} does not exist: give a JSON Lines file, or the PREFIX "
                    "of a dataset",
                    data::bin_path(prefix));
    }
    return std::make_unique<LineItems>(path, io::read_input(path, INT64_MAX), options);
}

void ScoreTotals::add(const io::OrderedJson& line) {
    const auto& kind = line.at("kind").get_ref<const std::string&>();
    if (kind == "question") {
        ++n_questions_;
        if (!line.contains("label")) return;
        ++n_labels_;
        n_correct_ += line.at("correct").get<bool>() ? 1 : 0;
        n_correct_normalized_ += line.at("correct_normalized").get<bool>() ? 1 : 0;
        return;
    }
    Texts& texts = kind == "document" ? documents_ : requests_;
    ++texts.n;
    texts.tokens += line.at("tokens").get<i64>();
    texts.log_probability += line.at("log_probability").get<double>();
    if (kind == "request") {
        n_greedy_ += line.at("greedy").get<bool>() ? 1 : 0;
        return;
    }
    texts.all_bytes = texts.all_bytes && line.contains("bytes");
    if (texts.all_bytes) texts.bytes += line.at("bytes").get<i64>();
}

io::OrderedJson ScoreTotals::to_json() const {
    const auto share = [](double part, i64 of) {
        return part / static_cast<double>(std::max<i64>(1, of));
    };
    io::OrderedJson total{{"kind", "total"}};
    if (documents_.n > 0) {
        total["documents"] = documents_.n;
        total["tokens"] = documents_.tokens;
        if (documents_.all_bytes) total["bytes"] = documents_.bytes;
        if (documents_.tokens > 0) {
            const double loss = share(-documents_.log_probability, documents_.tokens);
            total["loss"] = loss;
            total["perplexity"] = std::exp(loss);
        }
        if (documents_.all_bytes && documents_.bytes > 0) {
            total["bits_per_byte"] =
                share(-documents_.log_probability / std::numbers::ln2, documents_.bytes);
        }
    }
    if (requests_.n > 0) {
        total["requests"] = requests_.n;
        total["request_tokens"] = requests_.tokens;
        total["request_loss"] = share(-requests_.log_probability, requests_.tokens);
        total["greedy"] = share(static_cast<double>(n_greedy_), requests_.n);
    }
    if (n_questions_ > 0) {
        total["questions"] = n_questions_;
        if (n_labels_ > 0) {
            total["accuracy"] = share(static_cast<double>(n_correct_), n_labels_);
            total["accuracy_normalized"] =
                share(static_cast<double>(n_correct_normalized_), n_labels_);
        }
    }
    return total;
}

}  // namespace lm::eval
