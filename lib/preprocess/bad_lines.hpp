// SPDX-License-Identifier: Apache-2.0
// The handling of lines that cannot be encoded (--on-bad-line). fail: the run ends with an error
// that states file, line and byte. skip: the line is skipped with a warning. replace: each invalid
// character is replaced by U+FFFD; a line with any other fault ends the run.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "base/named.hpp"
#include "data/jsonl/line_parser.hpp"

namespace lm::preprocess {

enum class OnBadLine { fail, skip, replace };
inline constexpr std::array on_bad_lines{Named{OnBadLine::fail, "fail"},
                                         Named{OnBadLine::skip, "skip"},
                                         Named{OnBadLine::replace, "replace"}};
// Returns how the line parser must handle invalid text under `rule`.
data::InvalidText invalid_text_of(OnBadLine rule);

struct BadLine {
    i64 line;  // index of the line in the chunk, from 0
    data::LineError error;
};

// The bad lines of one chunk.
struct BadLines {
    i64 count = 0;
    std::vector<BadLine> first;  // the first 16, and each later line that cannot be skipped

    void add(i64 line, const data::LineError& error);
    void clear();
};

// The warnings about skipped lines of one run. May be used from several threads.
class BadLineWarnings {
  public:
    static constexpr int max_warnings = 10;

    // Prints a warning, unless max_warnings were printed before.
    void warn_skipped(const std::string& where, const std::string& reason);
    // Must be called at the end of the run. Prints how many of `n_bad` skipped lines had no
    // warning.
    static void warn_rest(i64 n_bad);
    bool exhausted() const { return n_warned_ >= max_warnings; }

  private:
    std::atomic<int> n_warned_{0};
};

// Reports the bad lines of the chunks of one part, in the order of the chunks. A message states the
// line number in the file. To compute the line number, the reporter counts the lines of the file
// before the piece (range of the input), once for each piece that has a bad line.
class BadLineReporter {
  public:
    // `warnings` must outlive the reporter.
    BadLineReporter(OnBadLine rule, BadLineWarnings& warnings) : rule_(rule), warnings_(warnings) {}

    // Warns of the bad lines of `chunk`, which was read from `input`. Throws BadLineError for the
    // first line that ends the run. `lines_before` is the number of lines between the start of the
    // chunk's piece and the chunk.
    void report(const data::LineChunk& chunk, const std::string& input, i64 lines_before,
                const BadLines& bad);

  private:
    i64 lines_before_piece(const data::LineChunk& chunk, const std::string& input,
                           i64 lines_before);

    OnBadLine rule_;
    BadLineWarnings& warnings_;
    i64 piece_ = -1;        // index of the piece to which before_piece_ belongs
    i64 before_piece_ = 0;  // lines of the file before this piece
};

}  // namespace lm::preprocess
