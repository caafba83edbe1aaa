// SPDX-License-Identifier: Apache-2.0
// Reader, workers, in-order results: chunks of lines go through parsing and encoding on many
// threads and come out in input order, so that the output has the same bytes for any number of
// them. Memory is bounded by the number of chunks in flight, and by a budget where lines are long.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bad_lines.hpp"
#include "data/jsonl.hpp"
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

    explicit KeyTokens(bool wide) : ids(wide) {}
    void clear();
};

struct ChunkResult {
    data::LineChunk chunk;
    std::vector<KeyTokens> keys;
    i64 n_lines = 0, n_documents = 0, n_blank = 0, n_replaced = 0;
    i64 text_bytes = 0;        // of the texts that were encoded
    i64 compressed_bytes = 0;  // read from all inputs when this chunk had been read
    BadLines bad;

    i64 memory() const;  // of the text and the ids
    void release();      // memory that only a long line needed
};

// Parses and encodes chunks; one per thread.
class ChunkEncoder {
  public:
    ChunkEncoder(const EncodeRules& rules, const text::Tokenizer& tokenizer);
    // Replaces everything in `result` but its chunk. With OnBadLine::fail it stops at the first bad
    // line.
    void encode(ChunkResult& result);

  private:
    void encode_line(std::string_view line, ChunkResult& result);
    void encode_value(const data::LineValue& value, KeyTokens& out, ChunkResult& result);
    void encode_sequence(std::string_view text, KeyTokens& out, ChunkResult& result);

    const EncodeRules* rules_;
    const text::Tokenizer* tokenizer_;
    data::LineParser parser_;
    data::LineValue plain_;
    std::unique_ptr<text::Encoder> encoder_;
};

// Calls `take` on every result in input order, in the calling thread: while that waits for the
// disk, the workers go on. `check` is called a few times a second while nothing comes. An exception
// of any thread, or of these, ends all and is thrown here.
void run_pipeline(data::ChunkReader& reader, const EncodeRules& rules,
                  const text::Tokenizer& tokenizer, int n_workers, MemoryBudget& budget,
                  const std::function<void(const ChunkResult&)>& take,
                  const std::function<void()>& check);

}  // namespace lm::preprocess
