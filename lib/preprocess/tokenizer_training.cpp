// SPDX-License-Identifier: Apache-2.0
#include "preprocess/tokenizer_training.hpp"

#include <algorithm>
#include <future>
#include <iterator>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "data/jsonl/line_parser.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/output_place.hpp"
#include "io/path.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::preprocess {

namespace {

constexpr i64 count_chunk_bytes = i64{1} << 20;
// Bytes of text in a round. All threads count the pre-tokens of a round, then their counts are
// merged, and the rarest pre-tokens are dropped if there are too many. The counts depend on where
// rounds end, so this size is fixed.
constexpr i64 round_bytes = i64{64} << 20;
// A worker frees its buffers after a chunk longer than this.
constexpr size_t split_text_bytes = size_t{2} << 20;

int n_threads(const CorpusOptions& options) {
    return options.workers > 0 ? static_cast<int>(options.workers) : available_cores();
}

}  // namespace

CorpusTotals& CorpusTotals::operator+=(const CorpusTotals& other) {
    documents += other.documents;
    text_bytes += other.text_bytes;
    pretokens += other.pretokens;
    bad += other.bad;
    return *this;
}

// Parses chunks and counts their pre-tokens in one thread's share of the counter.
class CorpusCounter::Worker {
  public:
    Worker(const CorpusOptions& options, const text::TokenizerDesign& design)
        : parser_(options.keys, invalid_text_of(options.on_bad_line)),
          pretokenizer_(text::make_pretokenizer(design.rule)) {
        if (design.form) normalizer_ = text::Normalizer({{*design.form}});
    }

    ChunkCount count(const data::LineChunk& chunk, text::PretokenCounter& counter, int worker) {
        ChunkCount result;
        for (std::string_view rest = chunk.text(); !rest.empty(); ++result.n_lines) {
            const std::string_view line = data::next_line(rest);
            if (data::is_blank(line)) continue;
            try {
                for (const data::LineValue& value : parser_.parse(line)) {
                    if (!value.is_list) count_text(value.text, counter, worker, result.totals);
                    for (const std::string_view sentence : value.sentences)
                        count_text(sentence, counter, worker, result.totals);
                }
                ++result.totals.documents;
            } catch (const data::LineError& error) {
                result.bad.add(result.n_lines, error);
            } catch (const text::TextTooLong& error) {
                result.bad.add(result.n_lines, {1, error.what(), data::LineError::Fault::length});
            }
        }
        if (chunk.text().size() > split_text_bytes) {
            parser_.release();
            normalized_ = {};
        }
        result.totals.bad = result.bad.count;
        return result;
    }

  private:
    void count_text(std::string_view text, text::PretokenCounter& counter, int worker,
                    CorpusTotals& totals) {
        totals.text_bytes += static_cast<i64>(text.size());
        text = normalizer_.apply(text, normalized_);
        pretokenizer_->start(text);
        u32 begin = 0;
        while (const i64 n = pretokenizer_->next(ends_, std::size(ends_))) {
            totals.pretokens += n;
            for (i64 i = 0; i < n; begin = ends_[i++])
                counter.add(worker, text.substr(begin, ends_[i] - begin));
        }
    }

    data::LineParser parser_;
    std::unique_ptr<text::Pretokenizer> pretokenizer_;
    text::Normalizer normalizer_;
    text::Normalizer::Buffers normalized_;
    u32 ends_[512];
};

CorpusCounter::CorpusCounter(const CorpusOptions& options, const text::TokenizerDesign& design)
    : options_(options),
      design_(design),
      pool_(n_threads(options)),
      pretokens_(pool_.size(), options.max_pretokens),
      bad_lines_(options.on_bad_line, warnings_) {}

CorpusCounter::~CorpusCounter() = default;

void CorpusCounter::run(const std::function<void(i64, i64)>& progress) {
    data::ChunkReader reader(data::examine_inputs(io::expand_inputs(options_.inputs)),
                             count_chunk_bytes);
    for (int i = 0; i < pool_.size(); ++i)
        workers_.push_back(std::make_unique<Worker>(options_, design_));
    // A separate thread reads the next round while the workers count the current round.
    Chunks round = read_round(reader);
    while (!round.empty()) {
        try {
            auto next = std::async(std::launch::async, [&] { return read_round(reader); });
            count_round(round, reader);
            progress(counted_bytes_, pretokens_.size());
            round = next.get();
        } catch (const data::BadLineError& bad_line) {
            reader.fail(bad_line, [] {});
        }
    }
    BadLineWarnings::warn_rest(totals_.bad);
}

CorpusCounter::Chunks CorpusCounter::read_round(data::ChunkReader& reader) {
    Chunks chunks;
    i64 memory = 0;
    while (memory < round_bytes &&
           !(options_.limit_bytes && read_bytes_ >= *options_.limit_bytes)) {
        data::LineChunk chunk;
        if (!reader.next(chunk)) break;
        memory += chunk.memory();
        read_bytes_ += static_cast<i64>(chunk.text().size());
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

void CorpusCounter::count_round(const Chunks& chunks, const data::ChunkReader& reader) {
    std::vector<ChunkCount> counts(chunks.size());
    pool_.run(static_cast<i64>(chunks.size()), [&](i64 task, int worker) {
        const auto i = static_cast<size_t>(task);
        counts[i] = workers_[static_cast<size_t>(worker)]->count(chunks[i], pretokens_, worker);
    });
    for (size_t i = 0; i < chunks.size(); ++i)
        add(chunks[i], reader.inputs()[static_cast<size_t>(chunks[i].file)].path, counts[i]);
    pretokens_.end_round(pool_);
}

void CorpusCounter::add(const data::LineChunk& chunk, const std::string& input,
                        const ChunkCount& count) {
    if (chunk.first) lines_ = 0;
    bad_lines_.report(chunk, input, lines_, count.bad);
    lines_ += count.n_lines;
    counted_bytes_ += static_cast<i64>(chunk.text().size());
    totals_ += count.totals;
}

namespace {

constexpr const char* temporary_suffix = "train-tokenizer";
constexpr const char* file_names[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                      "tokenizer_config.json"};

// Prints a note when a killed run left a temporary directory, which AtomicDirectory removes.
void note_leftover(const std::string& directory) {
    const std::string leftover =
        io::without_trailing_slashes(directory) + ".tmp." + temporary_suffix;
    if (io::exists(leftover)) note("{}: left by a run that was killed: removed", leftover);
}

}  // namespace

TrainingResult train_tokenizer(const TrainingOptions& options, const TrainingProgress& progress) {
    TrainingResult result;
    const Stopwatch watch;
    text::BpeTrainer trainer(options.design.special);
    {
        CorpusCounter corpus(options.corpus, options.design);
        corpus.run(progress.counted);
        progress.counting_ends();
        result.totals = corpus.totals();
        if (result.totals.text_bytes == 0)
            run_error("--input", "holds no text: nothing was written");
        result.distinct_pretokens = corpus.pretokens().size();
        result.dropped_count = corpus.pretokens().dropped_count();
        result.count_s = watch.elapsed_s();
        corpus.pretokens().for_each(
            [&](std::string_view pretoken, i64 count) { trainer.add(pretoken, count); });
    }
    result.bpe = trainer.train(options.vocab_size, options.min_frequency, progress.merged);
    result.merge_s = watch.elapsed_s() - result.count_s;
    return result;
}

void check_tokenizer_directory(const std::string& directory, bool force) {
    if (!io::exists(directory)) return io::require_parent(directory);
    if (!force) usage_error(directory, "exists already: use --force to replace it");
    if (!io::is_directory(directory))
        usage_error(directory, "exists and is not a directory: choose another --output");
    for (const std::string& name : io::list_directory(directory)) {
        if (std::ranges::find(file_names, name) == std::end(file_names))
            usage_error(directory,
                        "contains {}, which is not a file of a tokenizer: choose another --output",
                        name);
    }
}

void write_tokenizer(const std::string& directory, io::Overwrite overwrite,
                     const text::TrainedBpe& bpe, const text::TokenizerDesign& design) {
    note_leftover(directory);
    auto out = io::AtomicDirectory::create(directory, temporary_suffix, overwrite);
    const auto put = [&](const char* name, const std::string& content) {
        io::write_file(out.path() + "/" + name, content, io::Overwrite::no);
    };
    put(file_names[0], text::vocab_json(bpe));
    put(file_names[1], text::merges_txt(bpe));
    put(file_names[2], text::tokenizer_json(bpe, design));
    put(file_names[3], text::tokenizer_config_json(design));
    out.commit();
}

}  // namespace lm::preprocess
