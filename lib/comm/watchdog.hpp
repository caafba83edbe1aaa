// SPDX-License-Identifier: Apache-2.0
// Reports where a rank is when it stalls, from its flight recorder.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "comm/flight_recorder.hpp"

namespace lm::comm {

struct WatchdogOptions {
    double timeout_s = 600;  // without any event
    // Polled a few times a second: true when a dump was asked for (SIGUSR2).
    std::function<bool()> dump_requested;
    // Gets each line, from the watchdog's thread.
    std::function<void(const std::string& line)> report;
};

// A thread that reports where the rank is, with its last events, when it was asked to or when
// nothing has happened for the timeout (once, until something happens again). It ends nothing: the
// operations of a group have timeouts of their own.
class Watchdog {
  public:
    Watchdog(const FlightRecorder& recorder, WatchdogOptions options);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

  private:
    void run();
    void dump(const std::string& why);

    const FlightRecorder& recorder_;
    WatchdogOptions options_;
    bool stop_ = false;
    std::mutex mutex_;
    std::condition_variable stopped_;
    std::thread thread_;
};

}  // namespace lm::comm
