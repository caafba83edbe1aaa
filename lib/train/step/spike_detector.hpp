// SPDX-License-Identifier: Apache-2.0
// Finds steps whose loss or gradient norm is far above the values of the recent steps.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/types.hpp"

namespace lm::train {

// A step far above the recent range. A z-score is the difference from the mean of the recent range,
// in standard deviations.
struct Spike {
    double loss_z = 0;
    double norm_z = 0;  // z-score of the logarithm of the gradient norm
};

class SpikeDetector {
  public:
    // The least z-score of a spike.
    static constexpr double threshold = 6;
    // The recent range has the last `window` steps that are not spikes. While it has fewer than
    // `least` steps, no step is a spike.
    static constexpr size_t window = 128, least = 32;

    // If a step with these finite values is a spike, returns the spike; otherwise adds the values
    // to the recent range. After `least` spikes in a row the next steps form a new range.
    std::optional<Spike> add(double loss, double gradient_norm);

    struct Step {
        double loss = 0, log_norm = 0;
        friend bool operator==(const Step&, const Step&) = default;
    };
    // Returns the recent range, oldest step first.
    std::span<const Step> recent() const { return {steps_.data(), n_steps_}; }
    // Returns the number of consecutive spikes up to the last step.
    i64 in_a_row() const { return in_a_row_; }
    // Set the values that recent() and in_a_row() return. Only the last `window` steps count.
    void set_recent(std::span<const Step> steps);
    void set_in_a_row(i64 in_a_row) { in_a_row_ = in_a_row; }

  private:
    void push(const Step& step);

    std::array<Step, window> steps_{};  // a copy of this object allocates nothing
    size_t n_steps_ = 0;
    i64 in_a_row_ = 0;
};

}  // namespace lm::train
