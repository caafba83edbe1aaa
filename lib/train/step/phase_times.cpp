// SPDX-License-Identifier: Apache-2.0
#include "train/step/phase_times.hpp"

#include <utility>

namespace lm::train {

std::string_view name_of(StepPhase phase) {
    constexpr std::array<std::string_view, n_phases> names = {"data",     "forward",   "backward",
                                                              "transfer", "reduction", "optimizer",
                                                              "save",     "check",     "other"};
    return names[static_cast<size_t>(phase)];
}

StepPhase PhaseTimes::enter(StepPhase phase) {
    const double now_s = monotonic_s();
    seconds_[static_cast<size_t>(current_)] += now_s - std::exchange(since_s_, now_s);
    return std::exchange(current_, phase);
}

PhaseTimes::Seconds PhaseTimes::consume() {
    enter(current_);
    return std::exchange(seconds_, {});
}

}  // namespace lm::train
