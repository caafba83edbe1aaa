// SPDX-License-Identifier: Apache-2.0
// Fits the step times of a log to their batch sizes.
#pragma once

#include <optional>

namespace lm::metrics {

// Fits step_s = a + b * batch to the lines of a log by least squares. The weight of a line is its
// number of iterations.
class StepFit {
  public:
    void add(double batch, double step_s, double weight);
    // Returns a / (a + b * batch), in [0, 1]: the share of a step's time that does not grow with
    // the batch. Returns nullopt when the batch sizes are nearly equal or do not change the step
    // time.
    std::optional<double> fixed_share(double batch) const;

  private:
    double n_ = 0, mean_x_ = 0, mean_y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace lm::metrics
