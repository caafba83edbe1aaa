// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/decay_weights.hpp"

#include <cmath>

#include "base/error.hpp"

namespace lm::ckpt {

// The steps are numbered 0 .. k. With a constant learning rate, step j is step 0 minus the updates
// 1 .. j. The sum of c_j * (step j) is then step 0 minus the sum of w_i * (update i), where w_i is
// the sum of c_j for j >= i. A decay that scales update i by w_i therefore corresponds to the
// weights c_k = w_k, c_j = w_j - w_(j+1), c_0 = 1 - w_1.
//
// For evenly spaced steps, w_i is the decay at x_i = i / (k + 1), so that linear decay is the plain
// mean. In general, with the consumed tokens t_i of step i, x_i = (t_i - t_0) / (t_k - t_0) * k /
// (k + 1).
std::vector<double> decay_weights(const std::vector<i64>& tokens, EmulatedDecay style) {
    LM_CHECK(tokens.size() >= 2 && tokens.front() < tokens.back(),
             "expected at least two steps, the last with more consumed tokens than the first, got "
             "{} steps",
             tokens.size());
    const auto k = static_cast<double>(tokens.size() - 1);
    const auto all = static_cast<double>(tokens.back() - tokens.front());
    std::vector<double> decay{1};  // w_0, then w_1 .. w_k
    for (size_t i = 1; i < tokens.size(); ++i) {
        const double x = static_cast<double>(tokens[i] - tokens[0]) / all * k / (k + 1);
        decay.push_back(style == EmulatedDecay::linear ? 1 - x : 1 - std::sqrt(x));
    }
    std::vector<double> weights;
    for (size_t j = 0; j < decay.size(); ++j) {
        weights.push_back(decay[j] - (j + 1 < decay.size() ? decay[j + 1] : 0));
    }
    return weights;
}

}  // namespace lm::ckpt
