// SPDX-License-Identifier: Apache-2.0
// Notes and warnings for users. The library itself prints nothing. A program installs a sink
// (cli::run_main does), and a test may install its own. Without a sink, messages are dropped.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lm {

enum class Severity { note, warning };
inline std::string_view name_of(Severity severity) {
    return severity == Severity::note ? "note" : "warning";
}

using LogSink = std::function<void(Severity, std::string_view message)>;

// Replaces the sink; nullptr removes the sink. Thread-safe.
void set_log_sink(LogSink sink);
// Sets a second sink, such as a log file, which also gets each message; nullptr removes the second
// sink.
void set_log_copy(LogSink sink);

// A message that a program logs before it opens its log file.
struct EarlyMessage {
    Severity severity;
    std::string text;
    double unix_time_s;
};
// Sets the second sink, as set_log_copy() does. The first call returns the messages logged until
// then, at most the first 200, so that the caller can write them to the log file. Later calls
// return no messages.
std::vector<EarlyMessage> set_first_log_copy(LogSink sink);

// Passes `message` to the sinks. Thread-safe: only one thread at a time calls a sink.
void log_message(Severity severity, std::string_view message);

// Logs "object: text" as a note to the user.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
    log_message(Severity::note, fmt::format(format, std::forward<Args>(args)...));
}

// Logs "object: problem: remedy" for a problem that does not stop the program.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    log_message(Severity::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lm
