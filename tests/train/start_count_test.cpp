// SPDX-License-Identifier: Apache-2.0
#include "train/loop/start_count.hpp"

#include <catch2/catch.hpp>

#include "base/error.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("the third start in a row from one step is refused") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    count_start(run, 0, "a");
    count_start(run, 0, "a");
    try {
        count_start(run, 0, "a");
        FAIL("the third start is not refused");
    } catch (const Error& error) {
        CHECK(error.code() == Exit::self_stopped);
        CHECK(std::string(error.what()).find("2 starts in a row after iteration 0") !=
              std::string::npos);
    }
    count_start(run, 0, "b");    // other flags
    count_start(run, 100, "b");  // a new step
    count_start(run, 100, "b");
    CHECK_THROWS_AS(count_start(run, 100, "b"), Error);
    end_start_count(run);
    count_start(run, 100, "b");
}
