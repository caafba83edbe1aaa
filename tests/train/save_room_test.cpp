// SPDX-License-Identifier: Apache-2.0
// growing_saves() and steps_on_disk(): the saves that need additional room on disk, and the number
// of checkpoints at the same time.
#include "train/save/save_room.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

constexpr size_t all = 1000;

SaveRules rules_of(const std::string& schedule, const std::string& retain) {
    SaveRules rules{.ranges = spec::parse_save_schedule(schedule), .retain = {}};
    if (!retain.empty()) rules.retain = parse_retain(retain);
    return rules;
}

}  // namespace

TEST_CASE("without a retention each coming save needs room for one more checkpoint") {
    CHECK(growing_saves(rules_of("10", ""), 0, 35, all) == std::vector<i64>{10, 20, 30, 35});
    CHECK(growing_saves(rules_of("10", ""), 20, 35, all) == std::vector<i64>{30, 35});
    CHECK(growing_saves(rules_of("10", ""), 35, 35, all).empty());
    CHECK(growing_saves(rules_of("10@20,50", ""), 10, 200, 2) == std::vector<i64>{20, 50});
    // Rules that delete no step of this branch.
    CHECK(growing_saves(rules_of("10", "weights-only-older-than=2"), 0, 30, all) ==
          std::vector<i64>{10, 20, 30});
}

TEST_CASE("with keep-last the directory stops growing, with keep-every it grows slowly") {
    // A step is deleted only after the next one is complete, so up to three steps are on disk.
    CHECK(growing_saves(rules_of("10", "keep-last=2"), 0, 100, all) ==
          std::vector<i64>{10, 20, 30});
    CHECK(growing_saves(rules_of("10", "keep-last=2"), 50, 100, all).empty());
    CHECK(growing_saves(rules_of("10", "keep-last=1,keep-every=50"), 0, 160, all) ==
          std::vector<i64>{10, 20, 70, 120});
    CHECK(growing_saves(rules_of("10", "keep-last=1,keep-every=50"), 60, 160, all) ==
          std::vector<i64>{70, 120});
}

TEST_CASE("the number of checkpoints that are kept, and on disk during a save") {
    const auto counts = [](const std::string& retain, i64 start, i64 last) {
        const StepCount count = steps_on_disk(rules_of("10", retain), start, last);
        return std::pair(count.kept, count.on_disk);
    };
    CHECK(counts("", 0, 50) == std::pair<i64, i64>{5, 5});
    CHECK(counts("", 20, 50) == std::pair<i64, i64>{3, 3});
    CHECK(counts("weights-only-older-than=2", 0, 50) == std::pair<i64, i64>{5, 5});
    CHECK(counts("keep-last=2", 0, 50) == std::pair<i64, i64>{2, 3});
    CHECK(counts("keep-last=4", 0, 50) == std::pair<i64, i64>{4, 5});
    CHECK(counts("keep-last=9", 0, 50) == std::pair<i64, i64>{5, 5});
    CHECK(counts("keep-last=1,keep-every=20", 0, 50) == std::pair<i64, i64>{3, 4});
    CHECK(counts("keep-last=2", 50, 50) == std::pair<i64, i64>{0, 0});
}
