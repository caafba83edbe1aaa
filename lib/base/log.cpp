// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <mutex>

namespace lm {
namespace {

std::mutex sink_mutex;
LogSink& sink() {
    static LogSink the_sink;
    return the_sink;
}
LogSink& copy() {
    static LogSink the_copy;
    return the_copy;
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

void log_message(Severity severity, std::string_view message) {
    const std::lock_guard lock(sink_mutex);
    if (sink()) sink()(severity, message);
    if (copy()) copy()(severity, message);
}

}  // namespace lm
