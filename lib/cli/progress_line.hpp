// SPDX-License-Identifier: Apache-2.0
// Shows progress on stderr. A terminal shows one line, which is redrawn at most 6 times per second.
// A pipe or file gets one plain line per minute. With --quiet, nothing is printed.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "cli/terminal.hpp"

namespace lm::cli {

class ProgressLine {
  public:
    // With the `unit` "MB" or "MiB", amounts are bytes and are shown in this unit; with any other
    // unit, amounts are counts. A negative `total` means that the total is unknown, so the line
    // does not show the time left. `clock` returns seconds; tests replace it.
    // `begin`: the amount that was done before, which counts for the percentage but not for the
    // rate.
    ProgressLine(std::string_view what, std::string_view unit, i64 total, bool quiet,
                 double (*clock)() = monotonic_s, i64 begin = 0);
    ~ProgressLine();  // clears the terminal line
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Sets the progress, and redraws the line at most a few times per second, so frequent calls are
    // cheap. Thread-safe. `extra` has fields separated by ", "; fields beyond the width of the
    // terminal are dropped.
    void update(i64 done, std::string_view extra = {});
    // Clears the line on a terminal. Elsewhere, prints a final line if update() has printed a line.
    void finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cli
