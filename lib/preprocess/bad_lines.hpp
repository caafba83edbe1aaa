// SPDX-License-Identifier: Apache-2.0
// Lines that cannot be encoded, and what --on-bad-line does with them: end the run with an error
// that gives file, line and byte, or skip them with a warning.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "data/jsonl/line_parser.hpp"

namespace lm::preprocess {

enum class OnBadLine { fail, skip, replace };
// `name` is one of the values of --on-bad-line.
OnBadLine parse_on_bad_line(const std::string& name);
// Returns the option of the line parser for `rule`.
data::BadBytes bad_bytes_of(OnBadLine rule);

struct BadLine {
    i64 line;  // from 0, in the chunk
    data::LineError error;
};

// The bad lines of one chunk.
struct BadLines {
    i64 count = 0;
    std::vector<BadLine> first;  // the first 16, and every one that must not be skipped

    void add(i64 line, const data::LineError& error);
    void clear();
};

// The warnings about skipped lines of one run. May be used from several threads.
class BadLineWarnings {
  public:
    static constexpr int most_warnings = 10;

    // Warns, unless most_warnings warnings were given before.
    void warn_skipped(const std::string& where, const std::string& reason);
    // At the end: warns how many of `n_bad` skipped lines had no warning of their own.
    static void warn_rest(i64 n_bad);
    bool exhausted() const { return n_warned_ >= most_warnings; }

  private:
    std::atomic<int> n_warned_{0};
};

// Reports the bad lines of the chunks of one part, which come in order. To report a line it needs
// the number of lines in front of the part's stretch of the file; it counts them once, when the
// first bad line of the stretch is reported.
class BadLineReporter {
  public:
    // `warnings` must outlive the reporter.
    BadLineReporter(OnBadLine rule, BadLineWarnings& warnings) : rule_(rule), warnings_(warnings) {}

    // Warns of the bad lines of `chunk`, which was read from `input`, or throws BadLineError for
    // the first that ends the run. `lines_before`: lines between the start of the chunk's piece of
    // the input and the chunk.
    void report(const data::LineChunk& chunk, const std::string& input, i64 lines_before,
                const BadLines& bad);

  private:
    i64 lines_before_piece(const data::LineChunk& chunk, const std::string& input,
                           i64 lines_before);

    OnBadLine rule_;
    BadLineWarnings& warnings_;
    i64 piece_ = -1;        // the piece that before_piece_ is known for
    i64 before_piece_ = 0;  // lines of the file in front of it
};

}  // namespace lm::preprocess
