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
    // `first_save_s`: the estimate for a save until a save has been measured. `forward_passes`: the
    // number of global batches of an evaluation. `evaluation_tokens`: the number of tokens in each
    // of these batches.
    PhaseEstimates(double first_save_s, double forward_passes, double evaluation_tokens)
        : first_save_s_(first_save_s),
          forward_passes_(forward_passes),
          evaluation_tokens_(evaluation_tokens) {}

    // Add a measurement in seconds. `tokens`: the tokens of the step on all ranks.
    void add_step(double s, double tokens);
    void add_evaluation(double s) { evaluation_s_ = s; }
    void add_save(double s) { save_s_ = s; }

    // Return the expected time of the next phase in seconds, with a margin. step_s() is based on
    // the longest of the last 16 steps. If a step had fewer tokens than the next step, as in a
    // batch ramp or a curriculum, its time is first scaled up in proportion to the tokens. The
    // first step of a run includes warm-up, so it is ignored once a second step was added.
    // evaluation_s() is based on the last evaluation. Before the first evaluation, it assumes half
    // a step for each global batch of the evaluation.
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
