// SPDX-License-Identifier: Apache-2.0
// Time: a monotonic clock for durations, and the wall clock for stamps in files.
#pragma once

#include "base/types.hpp"

namespace lm {

double monotonic_s();  // seconds since an arbitrary start; never goes back
double unix_time_s();  // seconds since 1970, UTC

class Stopwatch {
  public:
    Stopwatch() : start_(monotonic_s()) {}
    double elapsed_s() const { return monotonic_s() - start_; }
    void restart() { start_ = monotonic_s(); }

  private:
    double start_;
};

}  // namespace lm
