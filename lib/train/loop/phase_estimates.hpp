// SPDX-License-Identifier: Apache-2.0
// Estimates the times of the next step, evaluation and save of a run from the previous ones. The
// loop uses them to stop early enough that its last save ends before a time limit.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/types.hpp"

namespace lm::train {

class PhaseEstimates {
  public:
    // `first_save_s`: the estimate for a save before any save was measured. `forward_passes`: the
    // number of global batches of an evaluation, each of `evaluation_tokens` tokens.
    PhaseEstimates(double first_save_s, double forward_passes, double evaluation_tokens)
        : first_save_s_(first_save_s),
          forward_passes_(forward_passes),
          evaluation_tokens_(evaluation_tokens) {}

    // Add a measurement in seconds. `tokens`: the tokens of the step on all ranks.
    void add_step(double s, double tokens);
    void add_evaluation(double s) { evaluation_s_ = s; }
    void add_save(double s) { save_s_ = s; }

    // Return the expected time of the next phase in seconds, with a margin. step_s(): the longest
    // of the last 16 steps. If a step had fewer tokens than the next one, as in a batch ramp or a
    // curriculum, its time is first scaled up in proportion to the tokens. The first step of a run
    // includes warm-up and is ignored after the second one. evaluation_s(): the time of the last
    // evaluation; before the first, half a step for each of its global batches.
    double step_s(double next_tokens) const;
    double evaluation_s() const;
    double save_s() const;

  private:
    struct Step {
        double s = 0, tokens = 1;
    };
    std::array<Step, 16> steps_{};
    size_t n_steps_ = 0;  // steps added since the start
    double first_save_s_, forward_passes_, evaluation_tokens_;
    std::optional<double> evaluation_s_, save_s_;
};

}  // namespace lm::train
