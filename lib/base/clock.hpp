// SPDX-License-Identifier: Apache-2.0
// Clocks: a monotonic one for durations, and the wall clock for time stamps in files.
#pragma once

#include "base/types.hpp"

namespace lm {

// Returns the seconds since an arbitrary start. The result never decreases.
double monotonic_s();
// Returns seconds since 1970-01-01 00:00 UTC.
double unix_time_s();

// Measures the time since its construction or the last restart().
class Stopwatch {
  public:
    Stopwatch() : start_(monotonic_s()) {}
    double elapsed_s() const { return monotonic_s() - start_; }
    void restart() { start_ = monotonic_s(); }

  private:
    double start_;
};

}  // namespace lm
