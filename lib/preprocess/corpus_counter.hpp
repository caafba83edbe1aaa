// SPDX-License-Identifier: Apache-2.0
// Counts the distinct pre-tokens of a corpus of JSON Lines on several threads. The counts do not
// depend on the number of threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "preprocess/bad_lines.hpp"
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

}  // namespace lm::preprocess
