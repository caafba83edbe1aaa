// SPDX-License-Identifier: Apache-2.0
// The verdict on the use of a file system.

#include "cluster/health.hpp"

#include "support/catch.hpp"

using namespace lm::cluster;

TEST_CASE("the worse of bytes and inodes decides, and a value equal to a threshold reaches it") {
    const HealthThresholds thresholds{.warning = 0.8, .critical = 0.95};
    const auto judge = [&](lm::i64 used, lm::i64 inodes_used) {
        return judge_use({.size = 1000, .used = used, .inodes = 100, .inodes_used = inodes_used},
                         thresholds);
    };
    CHECK(judge(799, 79).health == Health::ok);
    CHECK(judge(799, 79).reason.empty());
    CHECK(judge(800, 0).health == Health::warning);
    CHECK(judge(800, 0).reason == "80.0 % of its bytes are used (warning from 80 %)");
    CHECK(judge(950, 0).reason == "95.0 % of its bytes are used (critical from 95 %)");
    CHECK(judge(800, 99).reason == "99.0 % of its inodes are used (critical from 95 %)");
    CHECK(judge(800, 90).reason == "80.0 % of its bytes are used (warning from 80 %)");
    CHECK(judge(0, 80).health == Health::warning);
    // A file system without a limit of inodes.
    CHECK(judge_use({.size = 1000, .used = 1}, thresholds).health == Health::ok);
    CHECK(name_in(healths, Health::critical) == "critical");
}
