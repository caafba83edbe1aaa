// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <fmt/format.h>

#include <chrono>

#include "base/clock.hpp"
#include "base/threads.hpp"

namespace lm::comm {
namespace {

constexpr auto poll_interval = std::chrono::milliseconds(200);

}  // namespace

Watchdog::Watchdog(const FlightRecorder& recorder, WatchdogOptions options)
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
    double reported_s = -1;  // time of the last event before the stall that was reported
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, poll_interval, [this] { return stop_; })) {
        if (options_.dump_requested && options_.dump_requested()) dump("state");
        const double last_s = recorder_.last_event_s();
        if (last_s == reported_s || monotonic_s() - last_s < options_.timeout_s) continue;
        reported_s = last_s;
        dump(fmt::format("nothing has happened for {:.0f} s", monotonic_s() - last_s));
    }
}

void Watchdog::dump(const std::string& why) {
    for (const std::string& line : recorder_.events()) options_.report(line);
    options_.report(why + ": " + recorder_.where());
}

}  // namespace lm::comm
