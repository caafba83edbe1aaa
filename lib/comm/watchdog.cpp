// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.hpp"
#include "base/threads.hpp"

namespace lm::comm {
namespace {

constexpr auto poll_interval = std::chrono::milliseconds(200);
constexpr double stuck_after_s = 30;  // a rank may ask others for 24 s after a timeout
constexpr size_t max_events = 40;     // the most events that are printed when no file is written

}  // namespace

Watchdog::Watchdog(FlightRecorder& recorder, WatchdogOptions options)
    : recorder_(recorder), options_(std::move(options)), thread_(start_thread([this] { run(); })) {}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
}

void Watchdog::run() {
    double reported_s = -1;  // time of the last event before the reported stall
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, poll_interval, [this] { return stop_; })) {
        if (options_.dump_requested && options_.dump_requested()) report("state");
        if (recorder_.consume_dump_request() && options_.write_dump) options_.write_dump();
        end_if_stuck();
        const double last_s = recorder_.last_event_s();
        if (last_s == reported_s || monotonic_s() - last_s < options_.timeout_s) continue;
        reported_s = last_s;
        report(fmt::format("nothing has happened for {:.0f} s", monotonic_s() - last_s));
    }
}

void Watchdog::end_if_stuck() {
    const i64 wait_ns = recorder_.ring().state.wait_ns;
    if (wait_ns == 0 || !options_.end_stuck) return;
    const double waited_s = static_cast<double>(flight_clock_ns() - wait_ns) * 1e-9;
    if (waited_s > options_.timeout_s + stuck_after_s) options_.end_stuck(waited_s);
}

void Watchdog::report(const std::string& why) {
    const std::string file = options_.write_dump ? options_.write_dump() : "";
    if (!file.empty()) {
        options_.report(why + ": " + recorder_.where() + "; events: " + file);
        return;
    }
    const std::vector<std::string> events = recorder_.events();
    const size_t first = events.size() - std::min(events.size(), max_events);
    for (size_t i = first; i < events.size(); ++i) options_.report(events[i]);
    options_.report(why + ": " + recorder_.where());
}

}  // namespace lm::comm
