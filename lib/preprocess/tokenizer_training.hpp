// SPDX-License-Identifier: Apache-2.0
// lm-preprocess train-tokenizer: counts the pre-tokens of a corpus, learns a byte-level BPE from
// the counts, and writes the tokenizer's files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "io/atomic.hpp"
#include "preprocess/bad_lines.hpp"
#include "text/bpe/bpe_trainer.hpp"
#include "text/bpe/pretoken_counts.hpp"
#include "text/tokenizer_json/write_tokenizer.hpp"

namespace lm::preprocess {

struct CorpusOptions {
    std::vector<std::string> inputs;
    std::vector<std::string> keys = {"text"};
    OnBadLine on_bad_line = OnBadLine::fail;
    std::optional<i64> limit_bytes;  // reading stops after about this number of decompressed bytes
    i64 max_pretokens = 10'000'000;  // distinct pre-tokens kept in memory
    i64 workers = 0;                 // threads; 0: one per core
};

struct CorpusTotals {
    i64 documents = 0, text_bytes = 0, pretokens = 0;
    i64 bad = 0;  // skipped lines

    CorpusTotals& operator+=(const CorpusTotals& other);
};

// Counts the distinct pre-tokens of a corpus of JSON Lines on several threads. The counts do not
// depend on the number of threads.
class CorpusCounter {
  public:
    // Opens no file. `design` selects the normalizer and the pre-tokenizer. Both arguments must
    // outlive the counter.
    CorpusCounter(const CorpusOptions& options, const text::TokenizerDesign& design);
    ~CorpusCounter();

    // Reads and counts the corpus. Calls `progress` with the number of bytes read so far and the
    // number of distinct pre-tokens. Handles bad lines by --on-bad-line. Must be called only once.
    void run(const std::function<void(i64 bytes, i64 n_distinct)>& progress);

    const CorpusTotals& totals() const { return totals_; }
    const text::PretokenCounter& pretokens() const { return pretokens_; }

  private:
    class Worker;
    struct ChunkCount {
        CorpusTotals totals;
        i64 n_lines = 0;
        BadLines bad;
    };
    using Chunks = std::vector<data::LineChunk>;

    Chunks read_round(data::ChunkReader& reader);
    void count_round(const Chunks& chunks, const data::ChunkReader& reader);
    void add(const data::LineChunk& chunk, const std::string& input, const ChunkCount& count);

    const CorpusOptions& options_;
    const text::TokenizerDesign& design_;
    ThreadPool pool_;
    text::PretokenCounter pretokens_;
    std::vector<std::unique_ptr<Worker>> workers_;  // [threads of the pool]
    CorpusTotals totals_;
    i64 read_bytes_ = 0;
    i64 counted_bytes_ = 0;
    i64 lines_ = 0;  // lines of the current input before the next chunk
    BadLineWarnings warnings_;
    BadLineReporter bad_lines_;
};

struct TrainingOptions {
    CorpusOptions corpus;
    text::TokenizerDesign design;
    i64 vocab_size = 0;     // tokens of the finished vocabulary
    i64 min_frequency = 2;  // pairs that occur less often are not merged
};

struct TrainingResult {
    text::TrainedBpe bpe;
    CorpusTotals totals;
    i64 distinct_pretokens = 0;
    i64 dropped_count = 0;  // pre-tokens with this count or less may be missing; 0: none
    double count_s = 0, merge_s = 0;
};

struct TrainingProgress {
    std::function<void(i64 bytes, i64 n_distinct)> counted;
    std::function<void()> counting_ends;
    std::function<void(i64 n_tokens)> merged;
};

// Trains a tokenizer. Throws Error(failure) when the corpus has no text.
TrainingResult train_tokenizer(const TrainingOptions& options, const TrainingProgress& progress);

// Throws Error(usage) when the parent of `directory` does not exist. Also throws when `directory`
// exists, unless `force` is set and the directory contains only the files of a tokenizer.
void check_tokenizer_directory(const std::string& directory, bool force);

// Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json to `directory`. The
// directory gets its name after all files were written. With Overwrite::yes it replaces an existing
// directory.
void write_tokenizer(const std::string& directory, io::Overwrite overwrite,
                     const text::TrainedBpe& bpe, const text::TokenizerDesign& design);

}  // namespace lm::preprocess
