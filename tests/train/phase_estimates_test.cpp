// SPDX-License-Identifier: Apache-2.0
#include "train/loop/phase_estimates.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("estimates follow the measurements, with a margin") {
    PhaseEstimates times(8, 10);
    CHECK(times.save_s() == Approx(12));
    times.add_step(60);  // includes warm-up
    CHECK(times.step_s() == Approx(72));
    times.add_step(5);
    CHECK(times.step_s() == Approx(6));
    CHECK(times.evaluation_s() == Approx(30));
    times.add_step(10);
    CHECK(times.step_s() == Approx(12));
    for (int i = 0; i < 16; ++i) times.add_step(5);
    CHECK(times.step_s() == Approx(6));  // the long step is forgotten
    times.add_evaluation(100);
    times.add_save(40);
    CHECK(times.evaluation_s() == Approx(120));
    CHECK(times.save_s() == Approx(60));
}
