// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "base/fd_path.hpp"

namespace lm {
namespace {

// Recursive, because the second sink logs a warning when it cannot write.
std::recursive_mutex sink_mutex;
bool in_copy = false;  // the second sink is being called
LogSink& sink() {
    static LogSink the_sink;
    return the_sink;
}
LogSink& copy() {
    static LogSink the_copy;
    return the_copy;
}

constexpr size_t most_early = 200;
bool keeps_early = true;
std::vector<EarlyMessage>& early() {
    static std::vector<EarlyMessage> the_messages;
    return the_messages;
}

}  // namespace

void set_log_sink(LogSink new_sink) {
    const std::lock_guard lock(sink_mutex);
    sink() = std::move(new_sink);
}

void set_log_copy(LogSink new_sink) {
    const std::lock_guard lock(sink_mutex);
    copy() = std::move(new_sink);
}

std::vector<EarlyMessage> set_first_log_copy(LogSink new_sink) {
    const std::lock_guard lock(sink_mutex);
    copy() = std::move(new_sink);
    keeps_early = false;
    return std::exchange(early(), {});
}

void log_message(Severity severity, std::string_view text) {
    const std::string message = without_fd_paths(std::string(text));
    const std::lock_guard lock(sink_mutex);
    if (sink()) sink()(severity, message);
    // A message that the second sink itself logs goes to the first sink only.
    if (copy() && !std::exchange(in_copy, true)) {
        copy()(severity, message);
        in_copy = false;
    }
    if (keeps_early && early().size() < most_early) {
        early().push_back({severity, message, unix_time_s()});
    }
}

}  // namespace lm
