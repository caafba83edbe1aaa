// SPDX-License-Identifier: Apache-2.0
// The time that a rank's thread spends in each phase of a step. On a GPU, operations are only
// enqueued, so their time is in the phase in which the thread waits for the device.
#pragma once

#include <array>
#include <string_view>

#include "base/clock.hpp"
#include "base/types.hpp"

namespace lm::train {

enum class StepPhase : int {
    data,
    forward,
    backward,
    transfer,
    reduction,
    optimizer,
    save,
    check,  // checks of numbers, replicas, and the ranks' speed and memory
    other,  // evaluations, logs, the agreement on a stop
    count
};
inline constexpr size_t n_phases = static_cast<size_t>(StepPhase::count);
std::string_view name_of(StepPhase phase);

class PhaseTimes {
  public:
    using Seconds = std::array<double, n_phases>;

    // Ends the current phase and begins `phase`. Returns the phase that ended.
    StepPhase enter(StepPhase phase);
    // Returns the seconds in each phase since the previous call.
    Seconds consume();

  private:
    Seconds seconds_{};
    StepPhase current_ = StepPhase::other;
    double since_s_ = monotonic_s();
};

// The seconds of a step in each phase: mean, smallest and largest over all ranks.
struct PhaseSpread {
    PhaseTimes::Seconds mean{}, least{}, most{};
};

// Counts the time between the construction and the destruction of this object as time of `phase`.
// The destructor resumes the previous phase.
class PhaseScope {
  public:
    // `times` outlives this object.
    PhaseScope(PhaseTimes& times, StepPhase phase) : times_(times), before_(times.enter(phase)) {}
    ~PhaseScope() { times_.enter(before_); }
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

  private:
    PhaseTimes& times_;
    StepPhase before_;
};

}  // namespace lm::train
