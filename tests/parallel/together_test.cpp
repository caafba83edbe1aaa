// SPDX-License-Identifier: Apache-2.0
// Messages of together(): their number and size do not grow with the number of ranks.
#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/threads/run_ranks.hpp"
#include "parallel/together.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

// Returns the group operations of one rank of `n_ranks` in together(), where rank `failing` throws
// (-1: none).
std::vector<std::string> operations_of(int n_ranks, int failing) {
    std::vector<std::string> lines;
    comm::run_ranks(n_ranks, [&](comm::Group& world) {
        comm::FlightRecorder recorder;
        world.record_to(&recorder);
        std::string message;
        try {
            parallel::together(world, [&] {
                if (world.rank() >= failing && failing >= 0) run_error("x", "{}", world.rank());
            });
        } catch (const JointError& error) {
            message = error.what();
        }
        world.record_to(nullptr);
        CHECK_THAT(message, failing < 0 ? ContainsSubstring("")
                                        : ContainsSubstring(fmt::format("rank {} on", failing)));
        CHECK((failing >= 0 || message.empty()));
        if (world.rank() != 1) return;
        for (const std::string& line : recorder.events()) {
            if (line.find("bytes") != line.npos) lines.push_back(line.substr(line.find("group")));
        }
    });
    return lines;
}

}  // namespace

TEST_CASE("a rank sends the same few bytes for any number of ranks") {
    const std::vector<std::string> few = operations_of(4, -1);
    CHECK(few == operations_of(32, -1));
    REQUIRE(few.size() == 1);
    CHECK_THAT(few[0], ContainsSubstring(", 8 bytes"));
}

TEST_CASE("the first rank that failed is named") {
    operations_of(8, 3);
    operations_of(8, 7);
}
