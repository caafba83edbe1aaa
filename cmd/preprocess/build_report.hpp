// SPDX-License-Identifier: Apache-2.0
// Prints the progress and the result of a dataset build. While the build runs, it prints a progress
// bar on a terminal and Megatron-LM's lines elsewhere; at the end, the closing line or the
// statistics.
#pragma once

#include <mutex>

#include "args.hpp"
#include "base/clock.hpp"
#include "cli/progress_line.hpp"
#include "preprocess/build.hpp"
#include "preprocess/dataset_build.hpp"

namespace lm::preprocess {

class BuildReporter final : public BuildObserver {
  public:
    explicit BuildReporter(const Args& args);

    void begin(i64 total_bytes) override;  // also installs the stop signals
    void resumed(const BuildTotals& done) override;
    void advance(const BuildTotals& chunk, i64 disk_bytes) override;
    bool stop_requested() override;

    // Ends the progress bar. Prints the closing line, or with --json the statistics, and notes
    // about the outputs. The outputs must exist.
    void report(const BuildResult& result);

  private:
    // Prints Megatron-LM's line. `documents` includes the documents of earlier runs.
    void print_processed(i64 documents, double elapsed_s) const;

    const Args& args_;
    i64 interval_;  // documents between two lines
    bool terminal_;
    std::optional<cli::ProgressLine> bar_;  // from begin() on
    Stopwatch watch_;                       // restarted by begin()
    std::mutex mutex_;                      // guards the members below
    BuildTotals before_, totals_;           // counts of earlier runs, and counts of this run
    i64 disk_bytes_ = 0;
    i64 shown_ = 0;  // number of documents at the previous advance()
    double next_line_s_ = 0;
};

}  // namespace lm::preprocess
