// SPDX-License-Identifier: Apache-2.0
// Progress on stderr: on a terminal one line, redrawn at most 6 times per second; otherwise one
// plain line per minute; nothing with --quiet.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "cli/terminal.hpp"

namespace lm::cli {

class ProgressLine {
  public:
    // With the `unit` "MB" or "MiB" amounts are bytes, shown in that unit; with any other unit they
    // are counts. A negative `total` means that the total is unknown; the time left is then not
    // shown. `clock` returns seconds; tests replace it.
    ProgressLine(std::string_view what, std::string_view unit, i64 total, bool quiet,
                 double (*clock)() = monotonic_s);
    ~ProgressLine();  // clears the terminal line
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // Sets the progress and redraws the line when it is due; cheap otherwise. Thread-safe. `extra`
    // has fields separated by ", "; fields beyond the width of the terminal are dropped.
    void update(i64 done, std::string_view extra = {});
    // Clears the line of a terminal. On another output, prints a last line if one was printed
    // before.
    void finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cli
