// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/prune.hpp"

#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

TEST_CASE("steps that no rule keeps are removed; the newest step and latest are kept") {
    const std::vector<i64> steps{100, 200, 250, 300, 350, 400};
    CHECK(steps_to_remove(steps, {2, 0, {}}, 400) == std::vector<i64>{100, 200, 250, 300});
    CHECK(steps_to_remove(steps, {0, 200, {}}, 400) == std::vector<i64>{100, 250, 300, 350});
    CHECK(steps_to_remove(steps, {0, 0, {250}}, 400) == std::vector<i64>{100, 200, 300, 350});
    CHECK(steps_to_remove(steps, {1, 0, {}}, 200) == std::vector<i64>{100, 250, 300, 350});
    CHECK(steps_to_remove(steps, {9, 0, {}}, std::nullopt).empty());
    CHECK(steps_to_remove({}, {1, 0, {}}, std::nullopt).empty());
}

TEST_CASE("a left-over has a name that a program of the toolkit gives") {
    for (const char* name :
         {"global_step7.tmp.g3", "global_step7.tmp.copy", "global_step7.tmp.sync",
          "global_step7.tmp.removed", "abandoned-g2.tmp.removed", "latest.tmp.n1.7",
          "fence.json.tmp.n1.7.2", "global_step7.tmp.n1.7.old", "global_step7.tmp.n1.7",
          "starts-without-step.json.tmp.n1.7", "refused-iterations.json.tmp.n1.7",
          "pending-evaluation.json.tmp.n1.7", "durable-directory.tmp.n1.7", "sync.tmp.n1.7",
          "rendezvous.tmp.00ff00ff00ff00ff"})
        CHECK(is_leftover(name));
    for (const char* name :
         {"global_step7", "results.tmp.final.csv", "notes.tmp.old", "notes.tmp.removed",
          "notes.tmp.copy", "global_step7.tmp.", "global_step7.tmp.g", "global_step7.tmp.g3.bak",
          "global_step07.tmp.copy", "abandoned-g2.tmp.copy", "thesis.tmp.draft.2",
          "latest.bak.tmp.n1.7", "latest.tmp.draft", "abandoned-g2.tmp.n1.7", "rendezvous.tmp.7",
          "rendezvous.tmp.n1.7", "fence.json.tmp.n1.07"})
        CHECK_FALSE(is_leftover(name));
}

TEST_CASE("finish_removals completes an interrupted removal") {
    const test::ScratchDirectory scratch;
    for (const char* name : {"global_step1", "global_step2", "global_step3.tmp.removed"}) {
        io::make_directories(scratch / name);
    }
    remove_whole(scratch.path(), "global_step1");
    CHECK(steps_in(scratch.path()) == std::vector<i64>{2});
    finish_removals(scratch.path());
    CHECK(io::list_directory(scratch.path()) == std::vector<std::string>{"global_step2"});
}
