// SPDX-License-Identifier: Apache-2.0
// Progress for people, on stderr: on a terminal one line redrawn at most 6 times a second;
// otherwise one plain line a minute; nothing with --quiet.
#pragma once

#include <memory>
#include <string_view>

#include "base/types.hpp"

namespace lm::cli {

bool stderr_is_terminal();
bool stdout_is_terminal();

class Progress {
  public:
    // `unit` "B" is shown as MB with MB/s; any other unit as counts. total < 0: unknown, no ETA.
    Progress(std::string_view what, std::string_view unit, i64 total, bool quiet);
    ~Progress();  // clears the terminal line
    void update(i64 done, std::string_view extra = {});
    void finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cli
