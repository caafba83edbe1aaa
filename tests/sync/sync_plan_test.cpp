// SPDX-License-Identifier: Apache-2.0
#include "sync/sync_plan.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::sync;
using Action = SyncAction;
using Plan = std::vector<std::pair<i64, Action>>;

namespace {

// A step that the generation saved.
ckpt::StepEntry entry(i64 step, i64 generation = 1) {
    ckpt::StepEntry entry{.step = step, .path = {}, .manifest = ckpt::Manifest(), .reason = {}};
    entry.manifest->counters.iteration = step;
    entry.manifest->generation = generation;
    entry.manifest->run_id = "run";
    entry.manifest->created = "2026-01-31T12:00:00Z";
    return entry;
}

ckpt::StepEntry without_manifest(i64 step) {
    return {.step = step, .path = {}, .manifest = std::nullopt, .reason = "damaged"};
}

// Returns the lineage of a directory with these steps: the newest is the tip, and all are of
// generation 1.
ckpt::Lineage directory(std::vector<ckpt::StepEntry> steps) {
    ckpt::Lineage lineage;
    if (!steps.empty()) {
        lineage.latest = steps.back().step;
        lineage.tip = ckpt::Tip{{steps.back().step, ""}, {{1, "run", std::nullopt}}};
    }
    lineage.steps = std::move(steps);
    return lineage;
}

// Makes the tip a step of generation 2, which resumed from step `start` of generation 1.
ckpt::Lineage resumed(ckpt::Lineage lineage, i64 start) {
    lineage.tip->lineage.push_back({2, "run", ckpt::StepReference{start, ""}});
    return lineage;
}

Plan plan(const ckpt::Lineage& source, const ckpt::Lineage& destination,
          const ckpt::KeepPolicy& keep = {}) {
    Plan all;
    for (const PlannedStep& step : plan_sync(source, destination, keep)) {
        all.emplace_back(step.entry->step, step.action);
    }
    return all;
}

}  // namespace

TEST_CASE("an empty destination gets all complete steps, in ascending order") {
    CHECK(plan(directory({entry(2), entry(4), entry(6)}), directory({})) ==
          Plan{{2, Action::copy}, {4, Action::copy}, {6, Action::copy}});
    CHECK(plan(directory({entry(2), without_manifest(4), entry(6)}), directory({})) ==
          Plan{{2, Action::copy}, {6, Action::copy}});
    CHECK(plan(directory({}), directory({entry(2)})).empty());
}

TEST_CASE("a step that the destination has is present, with or without optimizer state") {
    ckpt::StepEntry weights_only = entry(4);
    weights_only.manifest->digest = "another";
    CHECK(plan(directory({entry(2), entry(4), entry(6)}), directory({entry(2), weights_only})) ==
          Plan{{2, Action::present}, {4, Action::present}, {6, Action::copy}});
}

TEST_CASE("another step of the same number is replaced") {
    ckpt::StepEntry another = entry(4);
    another.manifest->created = "2026-01-31T13:00:00Z";
    CHECK(plan(directory({entry(4)}), directory({another})) == Plan{{4, Action::replace}});
    CHECK(plan(directory({entry(4)}), directory({without_manifest(4)})) ==
          Plan{{4, Action::replace}});
    // After a rollback to step 2 the run saved step 4 again.
    const ckpt::Lineage source = resumed(directory({entry(2), entry(4, 2)}), 2);
    CHECK(plan(source, directory({entry(2), entry(4)})) ==
          Plan{{2, Action::present}, {4, Action::replace}});
}

TEST_CASE("steps of other branches are not copied") {
    const ckpt::Lineage source = resumed(directory({entry(2), entry(4), entry(6, 2)}), 2);
    CHECK(plan(source, directory({})) == Plan{{2, Action::copy}, {6, Action::copy}});
}

TEST_CASE("a step that the destination would remove at once is not copied") {
    const ckpt::Lineage source = directory({entry(2), entry(4), entry(6), entry(8)});
    CHECK(plan(source, directory({}), {.last = 2}) == Plan{{6, Action::copy}, {8, Action::copy}});
    CHECK(plan(source, directory({}), {.steps = {2}}) ==
          Plan{{2, Action::copy}, {8, Action::copy}});
}

TEST_CASE("the rules count steps that only the destination still has") {
    // The source keeps one step, the destination the two newest of the branch.
    const ckpt::Lineage source = directory({entry(8)});
    const ckpt::Lineage destination = directory({entry(4), entry(6)});
    CHECK(plan(source, destination, {.last = 2}) == Plan{{8, Action::copy}});
    CHECK(find_step(destination.steps, 6)->step == 6);
    CHECK(find_step(destination.steps, 8) == nullptr);
}
