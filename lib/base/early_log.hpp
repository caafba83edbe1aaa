// SPDX-License-Identifier: Apache-2.0
// The messages that a program logs before it opens its log file.
#pragma once

#include <string>
#include <vector>

#include "base/log.hpp"

namespace lm {

struct EarlyMessage {
    Severity severity;
    std::string text;
    double unix_time_s;
};

// Sets the second sink (set_log_copy()), and returns the messages that this program has logged
// before the first call, at most 200. A log file that is opened late thus contains them.
std::vector<EarlyMessage> set_first_log_copy(LogSink sink);

}  // namespace lm
