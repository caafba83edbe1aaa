// SPDX-License-Identifier: Apache-2.0
// Lines that cannot be used: where they stand in their input, and what is said of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/jsonl/line_parser.hpp"

namespace lm::preprocess {

enum class OnBadLine { fail, skip, replace };
OnBadLine parse_on_bad_line(const std::string& name);

struct BadLine {
    i64 line;  // from 0, in the chunk
    data::LineError error;
};

// Those of one chunk: all are counted, the first few are kept, and any that cannot be skipped.
struct BadLines {
    i64 count = 0;
    std::vector<BadLine> first;

    void add(i64 line, const data::LineError& error);
    void clear();
};

// Takes the chunks of some pieces in order. Any number of these share the ten warnings of the
// process.
class BadLineReport {
  public:
    static constexpr int most_warnings = 10;

    explicit BadLineReport(OnBadLine rule) : rule_(rule) {}

    // Warns of the lines, or throws BadLineError for the first that ends the work. `lines_before`
    // are those between the start of the chunk's piece and the chunk; those before the piece are
    // counted when there is something to say, once.
    void take(const data::LineChunk& chunk, const std::string& input, i64 lines_before,
              const BadLines& bad);

    // What the warnings kept to themselves, of `n_bad` lines in all.
    static void say_rest(i64 n_bad);

  private:
    i64 lines_before_piece(const data::LineChunk& chunk, const std::string& input,
                           i64 lines_before);

    OnBadLine rule_;
    i64 piece_ = -1;  // whose lines before it are known
    i64 before_piece_ = 0;
};

}  // namespace lm::preprocess
