// SPDX-License-Identifier: Apache-2.0
// The journal of a part. It has one line for every few megabytes of text. A line states how far the
// input was encoded, and the size and digest of each file of the part at that point. After a kill,
// --resume truncates all files to the sizes in the last line whose sizes and digests match them,
// and continues from that line. So no file needs an fsync before the part is finished.
// A line is a JSON object, a tab, the digest of the object's text and a newline.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/indexed/dataset_part.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "io/append_file.hpp"
#include "preprocess/build.hpp"

namespace lm::preprocess {

struct PartRecord {
    data::ReadPosition next;  // position of the first line that is not encoded yet
    i64 lines = 0;            // lines of the current piece before `next`
    bool finished = false;
    BuildTotals totals;
    std::vector<data::PartState> keys;  // [keys] state of the files of each key

    std::string to_line() const;
    // Returns nullopt for a line that is truncated or corrupt.
    static std::optional<PartRecord> parse(std::string_view line, const std::string& path);
};

class PartJournal {
  public:
    // Opens `path` or creates it, and locks it. Throws Error(usage) when another process has locked
    // the file.
    static PartJournal open(const std::string& path);

    // Returns the records, up to the first record that is corrupt or does not have `n_keys` keys.
    std::vector<PartRecord> read(size_t n_keys);
    // Truncates the journal after the first `n` records that read() returned.
    void keep(size_t n);
    void append(const PartRecord& record);  // also flushes the file
    void sync() { file_.sync(); }

  private:
    explicit PartJournal(io::AppendFile file) : file_(std::move(file)) {}

    io::AppendFile file_;
    std::vector<i64> ends_;  // [records] end of each line in the file
};

}  // namespace lm::preprocess
