// SPDX-License-Identifier: Apache-2.0
#include "cluster/processes.hpp"

#include <sys/sysmacros.h>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::cluster;

TEST_CASE("lines of /proc/PID/maps") {
    const auto line =
        parse_maps_line("7f1200000000-7f1200100000 rw-s 00001000 00:1a 4711    /dev/shm/a b");
    REQUIRE(line);
    CHECK(line->bytes == 0x100000);
    CHECK(line->file_offset == 0x1000);
    CHECK(line->file == FileId{makedev(0, 0x1a), 4711});
    CHECK(line->path == "/dev/shm/a b");
    CHECK_FALSE(line->deleted);
    const auto gone = parse_maps_line("7f00-7f10 rw-s 00000000 fd:01 9 /dev/shm/x (deleted)");
    REQUIRE(gone);
    CHECK(gone->deleted);
    CHECK(gone->path == "/dev/shm/x");
    for (const char* junk :
         {"", "7f00-7f10 rw-p 00000000 00:00 0 ", "7f00-7f10 rw-p 00000000 00:00 0 [heap]",
          "nonsense", "7f00-7f10", "7f00-7f10 rw-s", "-7f10 rw-s 0 0:0 1"}) {
        CAPTURE(junk);
        CHECK_FALSE(parse_maps_line(junk));
    }
}
