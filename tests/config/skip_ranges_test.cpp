// SPDX-License-Identifier: Apache-2.0
#include "config/skip_ranges.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::config;

TEST_CASE("ranges of iterations are joined, and wrong ones refused") {
    CHECK(parse_skip_ranges({}).empty());
    // The learning rate does not advance at --iterations-to-skip, so they are separate ranges.
    const auto joined = parse_skip_ranges({"3-4"}, {1, 5, 6});
    REQUIRE(joined.size() == 3);
    CHECK((joined[0].first == 1 && joined[0].last == 1 && !joined[0].rate_advances));
    CHECK((joined[1].first == 3 && joined[1].last == 4 && joined[1].rate_advances));
    CHECK((joined[2].first == 5 && joined[2].last == 6 && !joined[2].rate_advances));
    CHECK_THROWS_AS(parse_skip_ranges({}, {0}), Error);
    for (const char* wrong : {"5", "5-3", "0-3", "a-b", "-3", "5-"}) {
        CHECK_THROWS_AS(parse_skip_ranges({wrong}), Error);
    }
}
