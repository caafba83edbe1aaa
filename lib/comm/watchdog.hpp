// SPDX-License-Identifier: Apache-2.0
// A thread that reports the state of its rank, on request or when no event was recorded for some
// time.
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
    // A function that the watchdog's thread calls with each line of its report.
    std::function<void(const std::string& line)> report;
    // Writes the events to a file. Returns the name of the file, or an empty text when no directory
    // for files is set. Called from the watchdog's thread.
    std::function<std::string()> write_dump;
    // Called from the watchdog's thread when the rank has waited for one operation for 30 s longer
    // than the timeout. At that time the operation's own timeout should have ended the wait, so the
    // thread is stuck inside of the library that carries the operation.
    std::function<void(double waited_s)> end_stuck;
};

// Dumps the events and reports the current state of `recorder` on request, and when no event was
// recorded for timeout_s seconds (once for each stall). FlightRecorder::request_dump() dumps
// without a report. Normally an operation of a group ends by its own timeout; end_stuck is for a
// rank whose thread does not return from the library and so cannot check that timeout.
class Watchdog {
  public:
    Watchdog(FlightRecorder& recorder, WatchdogOptions options);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

  private:
    void run();
    void end_if_stuck();
    void report(const std::string& why);

    FlightRecorder& recorder_;
    WatchdogOptions options_;
    bool stop_ = false;
    std::mutex mutex_;
    std::condition_variable stopped_;
    std::thread thread_;
};

}  // namespace lm::comm
