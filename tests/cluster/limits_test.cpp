// SPDX-License-Identifier: Apache-2.0
#include "cluster/limits.hpp"

#include <unistd.h>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

TEST_CASE("control groups of both versions") {
    const CgroupPaths mixed = parse_cgroup("4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/d\n");
    CHECK(mixed.v1_memory == "/a/b");
    CHECK(mixed.v2 == "/d");
    CHECK(parse_cgroup("0::/\n").v2.empty());
    CHECK(parse_cgroup("").v1_memory.empty());
}

TEST_CASE("memory_room() is positive and at most the host's memory") {
    const auto room = memory_room();
    REQUIRE(room);
    CHECK(room->bytes > 0);
    CHECK(room->bytes <= i64{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
    CHECK(room->whose != "");
}
