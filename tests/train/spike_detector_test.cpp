// SPDX-License-Identifier: Apache-2.0
#include "train/step/guard_memory.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

// A training whose loss falls from 10 to 3, with some noise.
double loss_at(int step) {
    return 3 + 7 * std::exp(-step / 200.0) + 0.05 * std::sin(2.3 * step);
}

}  // namespace

TEST_CASE("an ordinary training has no spike") {
    SpikeDetector detector;
    for (int step = 0; step < 2000; ++step) {
        CHECK_FALSE(detector.add(loss_at(step), 0.3 + 0.1 * std::sin(1.7 * step)));
    }
}

TEST_CASE("the spike of BLOOM's chronicle is found at its second step") {
    // The nine gradient norms that the chronicle lists for the spike at iterations 31216 to 31222.
    const std::vector<double> norms = {.242, .947, 2.39, 15.9, 145, 960, 353, 379, 650};
    SpikeDetector detector;
    for (int step = 0; step < 500; ++step) {
        REQUIRE_FALSE(
            detector.add(2.2 + 0.02 * std::sin(step), 0.24 + 0.02 * std::sin(1.3 * step)));
    }
    CHECK_FALSE(detector.add(2.2, norms[0]));
    for (size_t i = 1; i < norms.size(); ++i) CHECK(detector.add(2.2, norms[i]));
    const auto spike = detector.add(5.098, 0.25);
    REQUIRE(spike);
    CHECK(spike->loss_z > 6);
    CHECK(spike->norm_z < 6);
    CHECK_FALSE(detector.add(2.216, 0.25));
}

TEST_CASE("a lasting change of the level is reported for 32 steps") {
    SpikeDetector detector;
    for (int step = 0; step < 100; ++step) REQUIRE_FALSE(detector.add(2, 1));
    int n_spikes = 0;
    for (int step = 0; step < 200; ++step) n_spikes += detector.add(4, 1).has_value();
    CHECK(n_spikes == 32);
}

TEST_CASE("the first steps are never spikes") {
    SpikeDetector detector;
    for (int step = 0; step < 32; ++step) CHECK_FALSE(detector.add(step % 2 == 0 ? 1 : 1000, 1));
}

TEST_CASE("a detector with the memory of another one finds the same spikes") {
    SpikeDetector detector;
    for (int step = 0; step < 300; ++step) {
        detector.add(loss_at(step) + (step % 50 > 46 ? 5 : 0), 0.3 + 0.1 * std::sin(1.7 * step));
    }
    detector.add(20, 1);
    const io::OrderedJson saved = to_json(GuardMemory{.spikes = detector, .in_spike = true});
    GuardMemory memory = guard_memory_from(io::parse_json(saved.dump(), "test"), "test");
    CHECK(memory.in_spike);
    CHECK(memory.spikes.in_a_row() == detector.in_a_row());
    REQUIRE(std::ranges::equal(memory.spikes.recent(), detector.recent()));
    CHECK(detector.recent().size() == SpikeDetector::window);
    for (int step = 0; step < 40; ++step) {
        const auto spike = detector.add(20, 1), same = memory.spikes.add(20, 1);
        REQUIRE(spike.has_value() == same.has_value());
        if (spike) CHECK(spike->loss_z == same->loss_z);
    }
}
