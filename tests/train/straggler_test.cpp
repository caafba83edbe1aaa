// SPDX-License-Identifier: Apache-2.0
#include "train/log/straggler.hpp"

#include <array>
#include <vector>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("a rank that stays slow for ten steps is named once") {
    StragglerRule rule;
    const std::vector<double> even = {1, 1.02, 1, 1.05}, slow = {1, 1.02, 1.3, 1.05};
    for (int i = 0; i < 20; ++i) CHECK_FALSE(rule.add(even, 1));
    for (int i = 0; i < 9; ++i) CHECK_FALSE(rule.add(slow, 1));
    const auto found = rule.add(slow, 1);
    REQUIRE(found);
    CHECK(found->rank == 2);
    CHECK(found->ratio == Approx(1.3 / 1.02));
    CHECK_FALSE(rule.add(slow, 1));
    CHECK_FALSE(rule.add(even, 1));
    CHECK_FALSE(rule.add(slow, 10));
    for (i64 i = 0; i < StragglerRule::recovery_lines; ++i)
        CHECK_FALSE(rule.add(even, StragglerRule::recovery_steps));
    CHECK(rule.add(slow, 10));
    // Two ranks that are slow in turn are noise: no rank is named.
    StragglerRule noise;
    const std::vector<double> other = {1.4, 1, 1, 1};
    for (int i = 0; i < 50; ++i) CHECK_FALSE(noise.add(i % 2 == 0 ? slow : other, 5));
    // A difference of 0.1 ms names no rank, either.
    StragglerRule tiny;
    CHECK_FALSE(tiny.add({1e-4, 2e-4, 1e-4}, 100));
}

TEST_CASE("slow ranks that alternate as the slowest one, and half of the ranks, are named") {
    StragglerRule rule;
    const std::vector<double> first = {1, 1.4, 1, 1.3}, second = {1, 1.3, 1, 1.4};
    std::vector<int> named;
    for (int i = 0; i < 20; ++i) {
        if (const auto found = rule.add(i % 2 == 0 ? first : second, 1))
            named.push_back(found->rank);
    }
    CHECK(named == std::vector<int>{3, 1});
}

TEST_CASE("two ranks that are slow in turn are named once each") {
    StragglerRule rule;
    std::vector<int> named;
    for (int i = 0; i < 100; ++i) {
        const auto found = rule.add(i % 2 == 0 ? std::vector{1, 1.2} : std::vector{1.2, 1.0}, 10);
        if (found) named.push_back(found->rank);
    }
    CHECK(named == std::vector<int>{1, 0});
}

TEST_CASE("a rank that stays slow is named once, also near the ratio and with long log intervals") {
    // Each pair: the own times of the ranks in two log lines, which follow each other.
    const std::vector<std::array<std::vector<double>, 2>> turns = {
        {std::vector{1.0, 1.0, 1.12}, std::vector{1.0, 1.0, 1.08}},   // above and below the ratio
        {std::vector{1.0, 1.0, 1.30}, std::vector{1.0, 1.0, 1.00}}};  // one normal line in between
    for (const auto& [first, second] : turns) {
        StragglerRule rule;
        std::vector<int> named;
        for (int i = 0; i < 100; ++i) {
            if (const auto found = rule.add(i % 2 == 0 ? first : second, 100))
                named.push_back(found->rank);
        }
        CHECK(named == std::vector<int>{2});
    }
}

TEST_CASE("of two ranks, the slower one is named") {
    StragglerRule rule;
    const auto found = rule.add({1, 1.5}, 10);
    REQUIRE(found);
    CHECK(found->rank == 1);
    CHECK(found->ratio == Approx(1.5));
}

TEST_CASE("memory that would be exhausted within a day is reported once") {
    LeakRule leak;
    std::optional<double> hours;
    for (int minute = 0; minute < 30 && !hours; ++minute) {
        hours = leak.add(60.0 * minute, 1e9 + 1e7 * minute, 1e9);
        if (minute < 10) CHECK_FALSE(hours);
    }
    REQUIRE(hours);
    CHECK(*hours == Approx(1e9 / 1e7 / 60));
    CHECK_FALSE(leak.add(1e4, 3e9, 1e9));
    // Slow growth, and a buffer that fills up.
    LeakRule slow, full;
    for (int minute = 0; minute < 100; ++minute) {
        CHECK_FALSE(slow.add(60.0 * minute, 1e9 + 1e5 * minute, 1e9));
        CHECK_FALSE(full.add(60.0 * minute, 1e9 + 1e8 * std::min(minute, 8), 1e9));
    }
}

TEST_CASE("memory that grows in leaps or is partly freed again is reported, a single leap is not") {
    // Every second sample has 30 MB that the next step frees. The memory grows by 100 kB/s.
    LeakRule noisy;
    std::optional<double> hours;
    for (int s = 0; s < 1200 && !hours; s += 10) {
        hours = noisy.add(s, 1e9 + 1e5 * s + (s % 20 == 0 ? 3e7 : 0), 1e9);
    }
    REQUIRE(hours);
    CHECK(*hours == Approx(1e9 / 1e5 / 3600).epsilon(0.05));
    // A leap at each save, every 8 minutes: between two saves nothing grows.
    LeakRule saves;
    hours.reset();
    int minute = 0;
    for (; minute < 180 && !hours; ++minute) {
        hours = saves.add(60.0 * minute, 1e9 + 1e8 * (minute / 8), 1e10);
    }
    REQUIRE(hours);
    CHECK(minute > 60);
    CHECK(*hours == Approx(1e10 / 1e8 * 8 / 60).epsilon(0.1));
    LeakRule once;
    for (int m = 0; m < 1000; ++m) CHECK_FALSE(once.add(60.0 * m, m < 300 ? 1e9 : 9e9, 1e9));
}
