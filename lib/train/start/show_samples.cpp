// SPDX-License-Identifier: Apache-2.0
#include "train/start/show_samples.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "io/json.hpp"
#include "train/config/run_data.hpp"

namespace lm::train {
namespace {

constexpr std::string_view option = "--show-samples";

// Finds the iteration that trains on each sample. Callers ask for samples in ascending order.
class Iterations {
  public:
    explicit Iterations(const spec::Schedule& schedule) : schedule_(schedule) {}
    struct At {
        i64 iteration = 0;
        i64 seq_length = 0;  // tokens of the sample that the iteration trains on
    };
    At of(i64 sample) {
        while (next_.samples <= sample) {
            seq_length_ = schedule_.seq_length(next_);
            next_ = schedule_.next(next_);
        }
        return {next_.iteration, seq_length_};
    }

  private:
    const spec::Schedule& schedule_;
    spec::Counters next_;
    i64 seq_length_ = 0;
};

io::OrderedJson piece_json(const data::TokenSpan& piece, std::span<const i32> ids,
                           const text::Tokenizer* tokenizer) {
    io::OrderedJson json = {{"data", piece.dataset->prefix()},
                            {"document", piece.sequence},
                            {"offset", piece.offset},
                            {"tokens", piece.count}};
    if (tokenizer == nullptr) {
        json["ids"] = std::vector<i32>(ids.begin(), ids.end());
        return json;
    }
    std::string bytes;
    std::string text;
    tokenizer->decode(ids, bytes);
    append_utf8_lossy(text, bytes);
    json["text"] = text;
    return json;
}

}  // namespace

SampleRange parse_sample_range(const std::string& text) {
    const std::string_view whole = text;
    const size_t dash = whole.find('-');
    SampleRange range;
    range.first = parse_count(option, whole.substr(0, dash));
    range.last = dash == whole.npos ? range.first : parse_count(option, whole.substr(dash + 1));
    if (range.first < 0 || range.last < range.first) {
        usage_error(
            option,
            "'{}' is not a range A-B of samples: samples count from 0, and A must not exceed B",
            text);
    }
    return range;
}

void show_samples(const RunConfig& config, const SampleRange& range) {
    if (range.last >= config.schedule.end().samples) {
        usage_error(option, "sample {} does not exist: the training has {} samples", range.last,
                    config.schedule.end().samples);
    }
    const data::DataSets data = open_data(config);
    const auto tokenizer = tokenizer_of(config);
    std::vector<i32> tokens(static_cast<size_t>(config.trainer.model.seq_length) + 1);
    Iterations iterations(config.schedule);
    for (i64 sample = range.first; sample <= range.last; ++sample) {
        data.train->fill(sample, tokens);
        const Iterations::At at = iterations.of(sample);
        io::OrderedJson pieces = io::OrderedJson::array();
        auto rest = std::span<const i32>(tokens).first(static_cast<size_t>(at.seq_length) + 1);
        for (data::TokenSpan piece : data.train->spans(sample)) {
            if (rest.empty()) break;  // a curriculum uses only the first tokens
            piece.count = std::min(piece.count, static_cast<i64>(rest.size()));
            const size_t count = static_cast<size_t>(piece.count);
            pieces.push_back(piece_json(piece, rest.first(count), tokenizer.get()));
            rest = rest.subspan(count);
        }
        const io::OrderedJson line = {
            {"sample", sample}, {"iteration", at.iteration}, {"pieces", pieces}};
        cli::write_stdout(io::json_line(line));
    }
}

}  // namespace lm::train
