// SPDX-License-Identifier: Apache-2.0
// The weights of steps in an average that replaces a decay of the learning rate.
#include "ckpt/verbs/decay_weights.hpp"

#include <cmath>
#include <numeric>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

TEST_CASE("merged steps equal a run whose updates were scaled by the decay") {
    const std::vector<i64> tokens{100, 200, 300, 400};
    const std::vector<double> linear = decay_weights(tokens, EmulatedDecay::linear);
    for (const double weight : linear) CHECK(weight == Approx(0.25));
    const std::vector<double> sqrt = decay_weights(tokens, EmulatedDecay::minus_sqrt);
    CHECK(sqrt[0] == Approx(0.5));
    CHECK(sqrt[1] == Approx(std::sqrt(0.5) - 0.5));
    CHECK(sqrt[3] == Approx(1 - std::sqrt(0.75)));

    // For any updates and any spacing, the merge is step 0 plus the sum of each update times
    // 1 - sqrt(x), where x is the progress of the decay.
    const std::vector<i64> uneven{0, 10, 40, 50, 100};
    const std::vector<double> updates{3, -1, 4, 1.5};
    const std::vector<double> weights = decay_weights(uneven, EmulatedDecay::minus_sqrt);
    CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) == Approx(1));
    double step = 7;
    double merged = weights[0] * step;
    double decayed = step;
    for (size_t i = 1; i < uneven.size(); ++i) {
        step += updates[i - 1];
        merged += weights[i] * step;
        decayed += updates[i - 1] * (1 - std::sqrt(static_cast<double>(uneven[i]) / 100 * 4 / 5));
    }
    CHECK(merged == Approx(decayed));
}
