// SPDX-License-Identifier: Apache-2.0
#include "spec/save_schedule.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

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
    const auto iterations = [](const char* text, i64 start, i64 n) {
        return save_iterations(parse_save_schedule(text), start, n);
    };
    CHECK(iterations("10@25,20", 0, 70) == std::vector<i64>{10, 20, 25, 40, 60, 70});
    CHECK(iterations("10@25,20", 25, 60) == std::vector<i64>{40, 60});
    CHECK(save_iterations({}, 0, 7) == std::vector<i64>{7});
    for (const char* text : {"10@100,18@1000,1500", "10@100", "7"}) {
        for (const i64 n : {5, 95, 100, 101, 1000, 3100}) {
            CHECK(std::ssize(iterations(text, 0, n)) == saves(text, n));
        }
    }
    for (const char* bad : {"", "10@100,", "0", "10,20@30", "10@100,5@100", "x", "10@0"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(parse_save_schedule(bad), Error);
    }
}
