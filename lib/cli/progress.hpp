// SPDX-License-Identifier: Apache-2.0
// Progress for people, on stderr: on a terminal one line redrawn at most 6 times a second;
// otherwise one plain line a minute; nothing with --quiet. No colours at all, so NO_COLOR changes
// nothing.
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "cli/terminal.hpp"

namespace lm::cli {

class Progress {
  public:
    // `unit` "B" is shown as MB with MB/s; any other unit as counts. total < 0: unknown, no ETA.
    // `clock` gives seconds; tests bring their own.
    Progress(std::string_view what, std::string_view unit, i64 total, bool quiet,
             double (*clock)() = monotonic_s);
    ~Progress();  // clears the terminal line
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // Cheap when nothing is due; may be called from any thread. `extra` is fields with ", " between
    // them: what does not fit into a terminal's line is left out by the field.
    void update(i64 done, std::string_view extra = {});
    // Clears the terminal line. Elsewhere prints a last line if any was printed before.
    void finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cli
