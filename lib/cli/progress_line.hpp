// SPDX-License-Identifier: Apache-2.0
// Shows progress on stderr: on a terminal one line, which is redrawn at most 6 times per second;
// elsewhere one plain line per minute; nothing with --quiet.
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
    ProgressLine(std::string_view what, std::string_view unit, i64 total, bool quiet,
                 double (*clock)() = monotonic_s);
    ~ProgressLine();  // clears the terminal line
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Sets the progress, and redraws the line at most a few times per second, so frequent calls are
    // cheap. Thread-safe. `extra` has fields separated by ", "; fields beyond the width of the
    // terminal are dropped.
    void update(i64 done, std::string_view extra = {});
    // Clears the line on a terminal. Elsewhere, prints a last line if it has printed an earlier
    // line.
    void finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cli
