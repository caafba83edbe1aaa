// SPDX-License-Identifier: Apache-2.0
// Reader, workers, in-order results: chunks of lines go through parsing and encoding on many
// threads and come out in input order, so that the output has the same bytes for any number of
// them. Memory is bounded by the number of chunks in flight, and by a budget where lines are long;
// the ids of a very long text go to the consumer while more of them are made.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bad_lines.hpp"
#include "data/jsonl/line_parser.hpp"
#include "memory_budget.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

struct EncodeRules {
    std::vector<std::string> keys;
    OnBadLine on_bad_line = OnBadLine::fail;
    bool append_eod = false;
    bool keep_empty = false;
    bool wide = false;  // ids of 32 bits instead of 16
};

// The ids of one key's texts in a chunk.
struct KeyTokens {
    text::IdBuffer ids;
    std::vector<i32> lengths;  // of each sequence
    std::vector<i32> sequences_per_document;
    i64 largest = -1;  // id

    // Ids that are held for one key of a chunk: ordinary chunks have fewer bytes of them.
    static constexpr i64 most_bytes = i64{8} << 20;

    explicit KeyTokens(bool wide) : ids(wide) {}
    void clear();
    void find_largest();  // of the ids that are held, and of those before
};

struct ChunkResult {
    data::LineChunk chunk;
    std::vector<KeyTokens> keys;
    i64 n_lines = 0, n_documents = 0, n_blank = 0, n_replaced = 0;
    i64 text_bytes = 0;        // of the texts that were encoded
    i64 compressed_bytes = 0;  // read from all inputs when this chunk had been read
    BadLines bad;

    i64 memory() const;  // of the text and the ids that are held
    void release();      // memory that only a long line needed
};

// Parses and encodes chunks; one per thread.
class ChunkEncoder {
  public:
    ChunkEncoder(const EncodeRules& rules, const text::Tokenizer& tokenizer);
    // Replaces everything in `result` but its chunk. It stops at the first bad line that is not to
    // be skipped. Whenever a key has KeyTokens::most_bytes of ids `hand_over` takes them.
    void encode(ChunkResult& result, const std::function<void(size_t key)>& hand_over);

  private:
    void encode_line(std::string_view line, ChunkResult& result);
    void encode_value(const data::LineValue& value, KeyTokens& out, ChunkResult& result);
    void encode_sequence(std::string_view text, KeyTokens& out, ChunkResult& result);
    i64 encode_text(std::string_view text, text::IdBuffer& ids);

    const EncodeRules* rules_;
    const text::Tokenizer* tokenizer_;
    data::LineParser parser_;
    data::LineValue plain_;
    std::unique_ptr<text::Encoder> encoder_;
};

// What comes out of the pipeline, called in the thread that runs it: while that waits for the disk,
// the workers go on.
struct PipelineConsumer {
    // Ids of a key that come before those of the result that is next.
    std::function<void(const KeyTokens& ids, size_t key)> take_ahead;
    // Every result, in input order.
    std::function<void(const ChunkResult&)> take;
    // A few times a second while nothing comes.
    std::function<void()> check;
};

// An exception of any thread, or of the consumer, ends all and is thrown here.
void run_pipeline(data::ChunkReader& reader, const EncodeRules& rules,
                  const text::Tokenizer& tokenizer, int n_workers, MemoryBudget& budget,
                  const PipelineConsumer& consumer);

}  // namespace lm::preprocess
