// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <chrono>

namespace lm {

double monotonic_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double unix_time_s() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace lm
