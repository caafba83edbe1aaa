// SPDX-License-Identifier: Apache-2.0
#include "spec/save_schedule.hpp"

#include <catch2/catch.hpp>

#include "base/error.hpp"

using namespace lm;
using namespace lm::spec;

TEST_CASE("save schedules") {
    const auto saves = [](const char* text, i64 n) {
        return count_saves(parse_save_schedule(text), n);
    };
    CHECK(saves("10@100", 100) == 10);
    CHECK(saves("10@100,18@1000", 1000) == 10 + 51);  // tr1-13B's first rounds
    CHECK(saves("10@100,18@1000,1500", 150'000) == 10 + 51 + 100);
    // The end of a training is always saved.
    CHECK(saves("1500", 1499) == 1);
    CHECK(saves("10", 25) == 3);
    CHECK(saves("10", 20) == 2);
    CHECK(saves("10@100,18@1000,1500", 55) == 6);
    CHECK(saves("10@100", 101) == 11);
    CHECK(saves("10@100", 95) == 10);
    for (const char* bad : {"", "10@100,", "0", "10,20@30", "10@100,5@100", "x", "10@0"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(parse_save_schedule(bad), Error);
    }
}
