// SPDX-License-Identifier: Apache-2.0
#include "io/filesystem_use.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::io;

TEST_CASE("a quota limits what is available") {
    const FilesystemUse use{.size = 1000,
                            .used = 100,
                            .available = 900,
                            .inodes = 50,
                            .inodes_used = 10,
                            .inodes_available = 40};
    FilesystemUse mine = limited(use, {});
    CHECK(mine.available == 900);
    CHECK(mine.inodes_available == 40);
    mine = limited(use, {.bytes = 300, .inodes = 7});
    CHECK(mine.available == 300);
    CHECK(mine.used == 100);
    CHECK(mine.inodes_available == 7);
    mine = limited(use, {.bytes = 5000, .inodes = 5000});
    CHECK(mine.available == 900);
    CHECK(mine.inodes_available == 40);
    // A file system without a fixed number of inodes.
    mine = limited({.size = 1000, .available = 900}, {.bytes = {}, .inodes = 3});
    CHECK(mine.inodes == 3);
    CHECK(mine.inodes_available == 3);
}

TEST_CASE("the use of a file system that exists") {
    const FilesystemUse use = filesystem_use("/");
    CHECK(use.size > 0);
    CHECK(use.available <= use.size);
    CHECK(nearest_existing("/no/such/directory") == "/");
}
