// SPDX-License-Identifier: Apache-2.0
// Finds steps whose loss or gradient norm is far above their recent range.
#pragma once

#include <deque>
#include <optional>

#include "base/types.hpp"

namespace lm::train {

// A step outside of the recent range. The z-scores are the distances from the recent means in
// standard deviations.
struct Spike {
    double loss_z = 0;
    double norm_z = 0;  // z-score of the logarithm of the gradient norm
};

class SpikeDetector {
  public:
    // The least z-score of a spike.
    static constexpr double threshold = 6;
    // The recent range covers the last `window` steps. The first `least` steps are never
    // spikes.
    static constexpr size_t window = 128, least = 32;

    // Returns a spike if the step with these finite values is one; otherwise adds the values to the
    // recent range. After 32 spikes in a row the next steps form a new range.
    std::optional<Spike> add(double loss, double gradient_norm);

  private:
    struct Step {
        double loss = 0, log_norm = 0;
    };
    std::deque<Step> recent_;
    i64 in_a_row_ = 0;
};

}  // namespace lm::train
