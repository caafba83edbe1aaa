// SPDX-License-Identifier: Apache-2.0
#include "cluster/stress.hpp"

#include <unistd.h>

#include "cluster/shared_memory.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

TEST_CASE("a stress test frees its memory") {
    constexpr const char* shm = "/dev/shm";
    if (access(shm, R_OK | W_OK | X_OK) != 0 ||
        io::filesystem_use(shm).available < (i64{64} << 20)) {
        WARN("skipped: no room in /dev/shm");
        return;
    }
    const StressResult result = stress_shared_memory(shm, (i64{20} << 20) + 5);
    CHECK(result.reason == "");
    CHECK(result.passed);
    CHECK(result.touched == (i64{20} << 20) + 5);
}
