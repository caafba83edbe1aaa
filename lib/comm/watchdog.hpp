// SPDX-License-Identifier: Apache-2.0
// A thread that reports what its rank does, on request or when no event was recorded for some time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "comm/flight_recorder.hpp"

namespace lm::comm {

struct WatchdogOptions {
    double timeout_s = 600;  // reports after this time without an event
    // Polled every 0.2 s. Returns true when a report was requested (SIGUSR2).
    std::function<bool()> dump_requested;
    // Called for each line, from the watchdog's thread.
    std::function<void(const std::string& line)> report;
};

// Reports the last events and the current state of `recorder` on request, and when no event was
// recorded for the timeout (once for each stall). Ends nothing: the operations of a group have
// their own timeouts.
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
