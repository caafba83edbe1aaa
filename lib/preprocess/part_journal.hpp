// SPDX-License-Identifier: Apache-2.0
// The journal of a part: one line for every few megabytes of text, which states how far the input
// was encoded and the size and digest of each file of the part at that point. After a kill the
// last line that all files agree with is where the work resumes, so that nothing needs to be
// durable before the end.
// A line is a JSON object, a tab, the digest of the object's text and a newline.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/indexed/dataset_part.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "io/append_file.hpp"
#include "preprocess/build_totals.hpp"

namespace lm::preprocess {

struct PartRecord {
    data::ReadPosition next;  // position of the first line that is not encoded yet
    i64 lines = 0;            // lines of the current piece of the input before `next`
    bool finished = false;
    BuildTotals totals;
    std::vector<data::PartState> keys;  // [keys] state of each key's files

    std::string to_line() const;
    // Returns nullopt for a line that is truncated or corrupt.
    static std::optional<PartRecord> parse(std::string_view line, const std::string& path);
};

class PartJournal {
  public:
    // Opens `path` or creates it, and locks it. Throws Error(usage) when another process has it.
    explicit PartJournal(const std::string& path);

    // Returns the leading records that are whole and have `n_keys` keys.
    std::vector<PartRecord> read(size_t n_keys);
    // Drops everything after the first `n` records that read() returned.
    void keep(size_t n);
    void append(const PartRecord& record);  // and flushes
    void sync() { file_.sync(); }

  private:
    io::AppendFile file_;
    std::vector<i64> ends_;  // [records] end of each line in the file
};

}  // namespace lm::preprocess
