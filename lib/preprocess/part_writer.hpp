// SPDX-License-Identifier: Apache-2.0
// Writes one part of a dataset build: the files of each key, and the journal. Each record of the
// journal states the sizes and digests of these files at a point from which --resume can continue.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/indexed/dataset_part.hpp"
#include "preprocess/build.hpp"
#include "preprocess/chunk_encoder.hpp"
#include "preprocess/part_journal.hpp"

namespace lm::preprocess {

class PartWriter {
  public:
    // Opens the journal and the files of each key, STEM.bin and so on. `read_again`: whether the
    // .bin files are read after they are complete. Throws Error(usage) when another process has
    // locked the journal.
    static PartWriter open(const std::string& journal, const std::vector<std::string>& stems,
                           data::TokenType type, io::ReadAgain read_again);

    // Truncates the journal and the files to the last record that all files match. Calls `check`
    // often. If `check` throws, a later process can resume from the same record.
    void resume(const std::function<void()>& check);
    const PartRecord& record() const { return record_; }
    // Returns how many lines of its piece precede `chunk`, the next chunk to be appended.
    i64 lines_before(const data::LineChunk& chunk) const;

    // Appends ids of `key` while a worker still encodes the rest of their chunk. Returns the counts
    // of the appended ids.
    BuildTotals append_ahead(const KeyTokens& ids, size_t key);
    // Appends a chunk without the ids that append_ahead() has written. Returns the counts of the
    // appended data.
    BuildTotals append(const EncodedChunk& encoded);
    // Records the chunks that have been appended. Does nothing between append_ahead() and append(),
    // because the journal has no positions within a chunk.
    void save();
    // Marks the part as finished. Its files and its journal are durable when finish() returns.
    void finish();

  private:
    explicit PartWriter(PartJournal journal) : journal_(std::move(journal)) {}
    void write_record();

    PartJournal journal_;
    std::vector<data::DatasetPart> parts_;  // [keys]
    PartRecord record_;
    i64 unrecorded_bytes_ = 0;
    bool within_chunk_ = false;
};

}  // namespace lm::preprocess
