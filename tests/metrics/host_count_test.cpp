// SPDX-License-Identifier: Apache-2.0
#include "metrics/host_count.hpp"

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
