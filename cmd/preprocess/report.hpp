// SPDX-License-Identifier: Apache-2.0
// What a run counts, and how it tells people: Megatron's lines where nobody watches, a bar where
// somebody does, and the closing line or document.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "args.hpp"
#include "base/clock.hpp"
#include "cli/progress.hpp"
#include "io/json.hpp"

namespace lm::preprocess {

struct Totals {
    i64 documents = 0, tokens = 0, text_bytes = 0, input_bytes = 0;
    i64 blank = 0, bad = 0, replaced = 0;

    Totals& operator+=(const Totals& other);
    io::OrderedJson to_json() const;
    static Totals parse(const io::Json& object, const std::string& path);
};

// May be used by many threads at once.
class Reporter {
  public:
    // `total_bytes` on disk, -1: unknown.
    Reporter(const Args& args, i64 total_bytes);

    // Something that an earlier run did already.
    void found(const Totals& done, i64 disk_bytes);
    // One chunk more.
    void add(const Totals& chunk, i64 disk_bytes);
    void say_skipped();  // what the warnings of bad lines kept to themselves
    double finish();     // returns the seconds since the start

  private:
    // Megatron's line; `documents` with those of earlier runs.
    void say_processed(i64 documents, double elapsed_s) const;

    i64 interval_;         // documents between two lines
    bool every_interval_;  // has its line; else one a minute at most, where no bar is shown
    bool quiet_;
    bool terminal_;
    cli::Progress bar_;
    Stopwatch watch_;
    std::mutex mutex_;
    Totals before_, totals_;
    i64 disk_bytes_ = 0;
    i64 shown_ = 0;
    double next_line_s_ = 0;
};

struct Outcome {
    Totals totals;
    i64 resumed_bytes = 0;  // of the input, which earlier runs did
    double seconds = 0;

    double mb_per_s() const;
};

// The outputs, one for each key, are in their places.
void report(const Args& args, const Outcome& outcome, const std::vector<std::string>& prefixes);
// What is worth telling of an earlier run, whose outputs these are: their side files keep it.
void report_found(const Args& args, const std::vector<std::string>& prefixes);

}  // namespace lm::preprocess
