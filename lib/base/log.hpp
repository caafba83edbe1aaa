// SPDX-License-Identifier: Apache-2.0
// Notes and warnings for people. The library prints nothing itself: a program installs a sink
// (cli::run_main does), a test may install its own; without one, messages are dropped.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace lm {

enum class Severity { note, warning };

using LogSink = std::function<void(Severity, std::string_view message)>;

void set_log_sink(LogSink sink);
void log_message(Severity severity, std::string_view message);

// "object: text": something the user should know; the work goes on as asked.
template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
    log_message(Severity::note, fmt::format(format, std::forward<Args>(args)...));
}

// Something is wrong but the work goes on.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    log_message(Severity::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lm
