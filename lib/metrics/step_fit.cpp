// SPDX-License-Identifier: Apache-2.0
#include "metrics/step_fit.hpp"

#include <algorithm>

namespace lm::metrics {

// Updates the sums of squares about the mean by Welford's method (Technometrics 4, 1962). A
// difference of plain sums of squares would lose most digits when a batch has thousands of samples.
void StepFit::add(double batch, double step_s, double weight) {
    n_ += weight;
    const double dx = batch - mean_x_;
    mean_x_ += dx * weight / n_;
    mean_y_ += (step_s - mean_y_) * weight / n_;
    xx_ += weight * dx * (batch - mean_x_);
    xy_ += weight * dx * (step_s - mean_y_);
}

std::optional<double> StepFit::fixed_share(double batch) const {
    // A fit needs batch sizes with at least this relative spread. With a smaller spread, the fit
    // shows only noise.
    constexpr double least_spread = 0.05;
    if (!(n_ > 0) || !(xx_ / n_ > least_spread * least_spread * batch * batch)) return std::nullopt;
    const double slope = xy_ / xx_;
    const double fixed = mean_y_ - slope * mean_x_;
    if (!(slope > 0)) return std::nullopt;
    return std::max(0.0, fixed) / (std::max(0.0, fixed) + slope * batch);
}

}  // namespace lm::metrics
