// SPDX-License-Identifier: Apache-2.0
// One part of a run: its inputs through the pipeline into its files, with a journal that says after
// every few megabytes how far all of them belong together. A later process checks the files against
// the journal and goes on at its last line that they agree with: nothing needs to be durable before
// the end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed/dataset_part.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "pipeline.hpp"
#include "report.hpp"

namespace lm::preprocess {

// Where a stop signal ended the work: its journal says how far it came.
struct Stopped {};

struct PartRecord {
    data::ReadPosition next;
    i64 lines = 0;  // of the current piece
    bool finished = false;
    Totals totals;
    std::vector<data::PartState> keys;

    std::string to_line() const;
    // nullopt for a line that is cut short or damaged.
    static std::optional<PartRecord> parse(std::string_view line, const std::string& path);
};

class PartRun {
  public:
    // `stems` name the files of each key, which are read again when the part is one of several.
    // Throws Error(usage) when another process works on them.
    PartRun(const std::string& journal, const std::vector<std::string>& stems, data::TokenType type,
            io::ReadAgain read_again);

    // Goes back to the last point at which all files are whole. `check` is called often and may
    // throw. Throws Stopped when a signal asks for it; a later process finds what this one found.
    void resume(const std::function<void()>& check);
    const PartRecord& record() const { return record_; }

    // Where the part's text comes from, and what everything is done with.
    struct Work {
        const std::vector<data::InputFile>* inputs;
        std::vector<data::InputPiece> pieces;
        const EncodeRules* rules;
        const text::Tokenizer* tokenizer;
        int n_workers;
        MemoryBudget* budget;
        i64 decoding_memory;  // io::open_stream
        Reporter* reporter;
        std::function<void()> check;  // called often; may throw
    };
    // Does what is left to do. Throws Stopped when a signal asks for it; the journal knows then.
    void run(const Work& work);

  private:
    void take_ahead(const Work& work, const KeyTokens& ids, size_t key);
    void take(const Work& work, const ChunkResult& result);
    void check_lines(const Work& work, const ChunkResult& result);
    void write_record();

    io::AppendFile journal_;
    std::vector<data::DatasetPart> parts_;
    PartRecord record_;
    std::optional<BadLineReport> bad_lines_;  // of the run() that goes on
    i64 unrecorded_bytes_ = 0;
    bool within_chunk_ = false;  // some of whose ids have been taken
    i64 disk_bytes_ = 0;
};

}  // namespace lm::preprocess
