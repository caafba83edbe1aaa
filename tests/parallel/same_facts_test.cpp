// SPDX-License-Identifier: Apache-2.0
// The comparison of ranks: who is named, and that its messages do not grow with the number of
// ranks.
#include "parallel/same_facts.hpp"

#include <functional>
#include <mutex>

#include "base/error.hpp"
#include "comm/flight_recorder.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;
using parallel::Fact;
using parallel::FactGroup;

namespace {

struct Compared {
    std::string message;                  // of rank 0; empty: no error
    std::vector<std::string> operations;  // of rank 1
};

Compared compare(int n_ranks, const std::function<std::vector<FactGroup>(int rank)>& facts) {
    Compared result;
    comm::run_ranks(n_ranks, [&](comm::Group& world) {
        comm::FlightRecorder recorder;
        world.record_to(&recorder);
        try {
            parallel::require_same(world, facts(world.rank()));
        } catch (const JointError& error) {
            CHECK(error.code() == Exit::usage);
            if (world.rank() == 0) result.message = error.what();
        }
        world.record_to(nullptr);
        if (world.rank() != 1) return;
        for (const std::string& line : recorder.events()) {
            if (line.find("bytes") != line.npos)
                result.operations.push_back(line.substr(line.find("group")));
        }
    });
    return result;
}

std::vector<FactGroup> flags(const std::string& lr, const std::string& seed = "1234") {
    return {{"same build", {{"version", "1"}}},
            {"same flags", {{"--lr", lr}, {"--threads", "4"}, {"--seed", seed}}}};
}

}  // namespace

TEST_CASE("equal ranks exchange the same few bytes for any number of ranks") {
    const auto equal = [](int) { return flags("1"); };
    const Compared few = compare(3, equal);
    CHECK(few.message.empty());
    REQUIRE(few.operations.size() == 1);
    CHECK_THAT(few.operations[0], ContainsSubstring(", 32 bytes"));
    CHECK(few.operations == compare(16, equal).operations);
}

TEST_CASE("a rank that differs is named with its value, also when it is rank 0") {
    const auto odd = [](int n_ranks, int rank) {
        return compare(n_ranks, [rank](int own) { return flags(own == rank ? "2" : "1"); }).message;
    };
    CHECK_THAT(odd(2, 1),
               HasInOrder("--lr: ", "is 2 on rank 1 on", "1 on rank 0 on", "1 of 2", "same flags"));
    CHECK_THAT(odd(8, 6), HasInOrder("--lr: ", "is 2 on rank 6 on", "1 on rank 0 on", "1 of 8"));
    CHECK_THAT(odd(8, 0), HasInOrder("--lr: ", "is 2 on rank 0 on", "1 on rank 1 on", "7 of 8"));
    CHECK_THAT(odd(8, 0), !ContainsSubstring("--threads"));
}

TEST_CASE("each fact that differs is named, an absent value and a missing fact, too") {
    const std::string both =
        compare(4, [](int rank) { return rank == 3 ? flags("2", "") : flags("1"); }).message;
    CHECK_THAT(both, HasInOrder("--lr: is 2", "--seed: is not given on rank 3", "1234"));
    const std::string missing = compare(2, [](int rank) {
                                    std::vector<FactGroup> facts = flags("1");
                                    if (rank == 1) facts[1].facts.pop_back();
                                    return facts;
                                }).message;
    CHECK_THAT(missing, HasInOrder("--seed: ", "1234 on rank 0"));
    // A build that differs may have other flags, so only the build is named.
    const std::string build = compare(2, [](int rank) {
                                  std::vector<FactGroup> facts = flags(std::to_string(rank));
                                  facts[0].facts[0].value = std::to_string(rank);
                                  return facts;
                              }).message;
    CHECK_THAT(build, HasInOrder("version: is 1 on rank 1", "same build"));
    CHECK_THAT(build, !ContainsSubstring("--lr"));
}

TEST_CASE("of many differences and long values, the message has a part that differs") {
    const std::string message =
        compare(2, [](int rank) {
            FactGroup group{"same", {}};
            for (int i = 0; i < 30; ++i)
                group.facts.push_back(
                    {fmt::format("--f{}", i), std::string(500, 'x') + std::to_string(rank)});
            return std::vector<FactGroup>{group};
        }).message;
    CHECK_THAT(message, HasInOrder("--f0: is ...", "x1 on rank 1", "x0 on rank 0", "22 more"));
    CHECK(message.size() < 4000);
}
