// SPDX-License-Identifier: Apache-2.0
#include "train/loop/start_count.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("a start that still runs has not failed") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    const std::string file = fmt::format("{}/{}", run, start_count_file);
    for (int start = 0; start < 5; ++start) {
        count_start(run, 0, "a");
        // Another process of this host that exists: the parent.
        io::OrderedJson count = io::OrderedJson::parse(io::read_file(file));
        CHECK(count["starts"] == 1);
        count["process"] = ::getppid();
        io::write_file(file, count.dump(), io::Overwrite::yes);
    }
}

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
