// SPDX-License-Identifier: Apache-2.0
// The reasons to stop that a rank sees: signals, the switch files, the time limit and the end of
// the batch job. Makes the state of the loop equal on all ranks, so that all make equal decisions.
#pragma once

#include "train/loop/loop_parts.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/loop/phase_estimates.hpp"
#include "train/loop/step_stop.hpp"

namespace lm::train {

class Stops {
  public:
    // `rules` outlives this object.
    Stops(const LoopParts& parts, const LoopRules& rules);

    // Returns the state of the loop, equal on all ranks. `own` has done, run_iterations, writing
    // and retaining. A signal to one rank, or a pending save on one rank, counts for all ranks.
    // Rank 0 reads the switch files and the clock. Collective.
    LoopState state(const LoopState& own);
    // Returns whether this rank has a reason to end an evaluation after `done`. The reason is a
    // signal, or on rank 0 also the kill switch or a time limit.
    bool must_end_evaluation(const spec::Counters& done) const;

    // Ends a step or a batch of an evaluation.
    StepStop& step() { return step_; }
    // The times of the phases, to which the loop adds its measurements.
    PhaseEstimates& estimates() { return estimates_; }
    // Returns the expected time of the next step that state() has found, the longest of all ranks
    // and the same on all ranks; 0: unknown.
    double step_s() const { return step_s_; }

  private:
    LoopState seen_here(LoopState state) const;
    bool present_on_rank0(const std::string& file) const;

    LoopParts parts_;
    const LoopRules& rules_;
    StepStop step_;
    PhaseEstimates estimates_;
    double step_s_ = 0;
};

}  // namespace lm::train
