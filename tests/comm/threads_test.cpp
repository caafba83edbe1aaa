// SPDX-License-Identifier: Apache-2.0
// The backends within one process: conformance, failures, and the guarantees of these backends
// alone.
#include <atomic>
#include <stdexcept>

#include "base/error.hpp"
#include "comm/self/group.hpp"
#include "comm/threads/run_ranks.hpp"
#include "conformance.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::comm;

TEST_CASE("conformance of self") {
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        INFO(c.name);
        const std::unique_ptr<Group> world = self("world");
        CHECK_NOTHROW(c.body(*world));
    }
}

TEST_CASE("conformance of threads") {
    const int n_ranks = GENERATE(1, 2, 3, 4, 7, 8);
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        INFO(c.name << " on " << n_ranks << " ranks");
        CHECK_NOTHROW(run_ranks(n_ranks, c.body));
    }
}

TEST_CASE("errors name the failure of a rank") {
    const int n_ranks = GENERATE(2, 3, 8);
    for (const test::FailureCase& c : test::failure_cases()) {
        INFO(c.name << " on " << n_ranks << " ranks");
        std::string message;
        const bool times_out = c.name == "one_never_comes";
        try {
            run_ranks(n_ranks, c.body, {.timeout_s = times_out ? 2.0 : 60.0});
        } catch (const std::exception& error) {
            message = error.what();
        }
        for (const std::string& word : c.words) {
            CHECK_THAT(message, ContainsSubstring(word));
        }
    }
}

TEST_CASE("a member that ends early is reported at once") {
    const auto body = [](Group& world) {
        if (world.rank() != 2) world.barrier();
    };
    CHECK_THROWS_WITH(run_ranks(4, body, {.timeout_s = 600}),
                      HasInOrder("group 'world': barrier, operation 0: rank 2 of 4 ", "ended"));
    const auto receive = [](Group& world) {
        float x = 0;
        if (world.rank() == 0) world.receive({&x, DType::fp32, {1}}, 1);
    };
    CHECK_THROWS_WITH(
        run_ranks(2, receive, {.timeout_s = 600}),
        HasInOrder("group 'world': receive(1 x fp32 from rank 1): rank 1 of 2 ", "ended"));
}

TEST_CASE("all ranks throw the reason of an abort, in all groups") {
    std::atomic<int> n_received = 0;
    const auto body = [&](Group& world) {
        const std::unique_ptr<Group> part = world.split(world.rank() % 2, 0, "part");
        if (world.rank() == 3) return part->abort("out of paper");
        try {
            for (;;) part->barrier();
        } catch (const Error& error) {
            const bool expected = std::string(error.what()) == "rank 3 gave up: out of paper";
            n_received += expected && error.code() == Exit::failure;
            throw;
        }
    };
    CHECK_THROWS_WITH(run_ranks(8, body, {.timeout_s = 600}), "rank 3 gave up: out of paper");
    CHECK(n_received == 7);
}

TEST_CASE("ranks_text() joins runs and limits their number") {
    CHECK(ranks_text({3}, 8) == "rank 3 of 8");
    CHECK(ranks_text({3, 7, 8, 9, 10, 12}, 64) == "ranks 3, 7-10, 12 of 64");
    CHECK(ranks_text({0, 1}, 2) == "ranks 0, 1 of 2");
    std::vector<int> odd;
    for (int rank = 1; rank < 1000; rank += 2) odd.push_back(rank);
    CHECK(ranks_text(odd, 1000) == "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 490 more of 1000");
}
