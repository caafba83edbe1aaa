// SPDX-License-Identifier: Apache-2.0
#include "train/loop/refused_iterations.hpp"

#include "comm/self/group.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("refused iterations survive a restart") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    io::make_directories(run);
    const auto world = comm::self("world");
    const auto read = [&](const std::string& batches) {
        return RefusedIterations::read(*world, run, batches, 0);
    };
    RefusedIterations refused = read("a");
    CHECK(refused.find(5) == nullptr);
    refused.add({.first = 5, .last = 5, .spike = true, .in_a_row = 2});
    refused.add({.first = 12, .last = 12, .in_a_row = 1});
    const RefusedRange window{.first = 9, .last = 20, .rolled_back = true, .spike = true};
    refused.add(window);

    const RefusedIterations restarted = read("a");
    REQUIRE(restarted.find(5) != nullptr);
    CHECK(*restarted.find(5) == *refused.find(5));
    CHECK(*restarted.find(12) == window);  // the window contains the single iteration
    CHECK(restarted.find(8) == nullptr);
    CHECK(restarted.find(21) == nullptr);
    CHECK(read("b").find(5) == nullptr);  // other batches

    // The load of a rollback found a newer step than was expected.
    refused.add({.first = 15, .last = 20, .rolled_back = true});
    CHECK(refused.find(14) == nullptr);
    CHECK(refused.find(15) != nullptr);

    io::write_file(fmt::format("{}/{}", run, refused_iterations_file), "{", io::Overwrite::yes);
    CHECK(read("a").find(5) == nullptr);  // with a warning
}

TEST_CASE("a run without --save remembers what it refuses, and writes nothing") {
    const auto world = comm::self("world");
    RefusedIterations refused = RefusedIterations::read(*world, "", "a", 0);
    refused.add({.first = 3, .last = 4});
    CHECK(refused.find(4) != nullptr);
}
