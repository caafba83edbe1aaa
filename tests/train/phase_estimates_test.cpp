// SPDX-License-Identifier: Apache-2.0
#include "train/loop/phase_estimates.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("estimates follow the measurements, with a margin") {
    PhaseEstimates times(8, 10, 64);
    CHECK(times.save_s() == Approx(12));
    times.add_step(60, 64);  // includes warm-up
    CHECK(times.step_s(64) == Approx(72));
    times.add_step(5, 64);
    CHECK(times.step_s(64) == Approx(6));
    CHECK(times.evaluation_s() == Approx(30));
    times.add_step(10, 64);
    CHECK(times.step_s(64) == Approx(12));
    for (int i = 0; i < 16; ++i) times.add_step(5, 64);
    CHECK(times.step_s(64) == Approx(6));  // the long step is forgotten
    times.add_evaluation(100);
    times.add_save(40);
    CHECK(times.evaluation_s() == Approx(120));
    CHECK(times.save_s() == Approx(60));
}

TEST_CASE("the estimate of a step grows with a batch ramp") {
    PhaseEstimates times(8, 10, 256);
    times.add_step(60, 64);  // includes warm-up
    times.add_step(5, 64);
    CHECK(times.step_s(64) == Approx(6));
    CHECK(times.step_s(128) == Approx(12));
    CHECK(times.step_s(32) == Approx(6));  // a smaller step is not expected to be faster
    CHECK(times.evaluation_s() == Approx(10 * 24 / 2));
    times.add_step(9, 128);
    CHECK(times.step_s(128) == Approx(12));
}
