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

// Sets the second sink, as set_log_copy() does. The first call returns the messages logged until
// then, at most the first 200, so that the caller can write them to the log file. Later calls
// return no messages.
std::vector<EarlyMessage> set_first_log_copy(LogSink sink);

}  // namespace lm
