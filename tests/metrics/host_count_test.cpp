// SPDX-License-Identifier: Apache-2.0
#include "metrics/host_count.hpp"

#include "metrics/printed_seconds.hpp"
#include "support/catch.hpp"

using namespace lm::metrics;

TEST_CASE("hosts of a list of Slurm") {
    CHECK(count_hosts("n1") == 1);
    CHECK(count_hosts("n1,n2") == 2);
    CHECK(count_hosts("n[001-004,7],login1") == 6);
    CHECK(count_hosts("r[1-2]n[01-10]") == 20);
    for (const char* wrong : {"", "n[", "n[3-1]", "n[a]", "n[1", ",", "n[1-99999999999]", "n[]"}) {
        CHECK(count_hosts(wrong) == 0);
    }
}

TEST_CASE("durations as they are printed") {
    CHECK(*printed_seconds("1 h 02 min") == 3720);
    CHECK(*printed_seconds("3 min 05 s, loop") == 185);
    CHECK(*printed_seconds("12.3 s") == 12.3);
    CHECK(*printed_seconds("250 ms") == 0.25);
    CHECK(*printed_seconds("2 d 01 h") == 176400);
    CHECK(!printed_seconds("soon"));
    CHECK(!printed_seconds(""));
}
