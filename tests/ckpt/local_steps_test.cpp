// SPDX-License-Identifier: Apache-2.0
// The choice of a local step, against brute force.
#include "ckpt/history/local_steps.hpp"

#include <climits>
#include <map>
#include <random>
#include <set>

#include "ckpt/support.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

const std::string run_id = "0123456789abcdef";

Tip line_of_one_start() {
    return {{INT64_MAX, {}}, {{1, run_id, std::nullopt}}};
}

LocalStep step_of(int holder, i64 iteration, i64 n_nodes) {
    LocalStep step{.holder = holder,
                   .step = iteration,
                   .digest = fmt::format("d{}", iteration),
                   .generation = 1,
                   .run_id = run_id,
                   .n_parts = n_nodes,
                   .parts = {}};
    for (i64 node = 0; node < n_nodes; ++node) {
        if (node == holder || partner_of(node, n_nodes) == holder) step.parts.push_back(node);
    }
    return step;
}

struct Saved {
    LocalStep step;
    i64 parent = -1;  // index of the step before it
};

}  // namespace

TEST_CASE("every node has another node as partner; a node serves at most two others") {
    for (i64 n_nodes = 2; n_nodes < 20; ++n_nodes) {
        std::map<i64, i64> served;
        for (i64 node = 0; node < n_nodes; ++node) {
            const i64 partner = partner_of(node, n_nodes);
            CHECK(partner >= 0);
            CHECK(partner < n_nodes);
            CHECK(partner != node);
            CHECK(++served[partner] <= 2);
        }
    }
    CHECK(partner_of(0, 1) == -1);
}

TEST_CASE("a local step equals the one parsed from its text") {
    const LocalStep step = step_of(2, 40, 5);
    CHECK(parse_local_step(text_of(step)) == step);
}

TEST_CASE("the newest local step that has a holder for each part is chosen") {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        const i64 n_nodes = 1 + static_cast<i64>(random() % 7);
        const i64 newest = 1 + static_cast<i64>(random() % 3);
        const i64 newer_than = static_cast<i64>(random() % 3);
        std::vector<LocalStep> held;
        std::map<i64, std::set<i64>> parts;  // by iteration
        i64 lost_nodes = 0;
        for (int node = 0; node < n_nodes; ++node) {
            const bool lost = random() % 4 == 0;
            lost_nodes += lost ? 1 : 0;
            if (lost) continue;
            for (i64 iteration = newest; iteration > newest - 2; --iteration) {
                LocalStep step = step_of(node, iteration, n_nodes);
                std::erase_if(step.parts,
                              [&](i64) { return lost_nodes == 0 && random() % 20 == 0; });
                parts[iteration].insert(step.parts.begin(), step.parts.end());
                held.push_back(step);
            }
        }
        i64 expected = -1;
        for (const auto& [iteration, have] : parts) {
            if (iteration > newer_than && std::ssize(have) == n_nodes) expected = iteration;
        }
        std::shuffle(held.begin(), held.end(), random);
        const auto choice = choose_local_step(held, line_of_one_start(), newer_than);
        REQUIRE((choice ? choice->step : -1) == expected);
        if (!choice) continue;
        for (i64 part = 0; part < n_nodes; ++part) {
            for (const int holder : choice->holders[static_cast<size_t>(part)]) {
                CHECK((holder == part || partner_of(part, n_nodes) == holder));
            }
        }
    }
}

TEST_CASE("after the loss of any one node the newest local step is complete") {
    for (i64 n_nodes = 2; n_nodes < 10; ++n_nodes) {
        for (int lost = 0; lost < n_nodes; ++lost) {
            std::vector<LocalStep> held;
            for (int node = 0; node < n_nodes; ++node) {
                if (node != lost) held.push_back(step_of(node, 8, n_nodes));
            }
            const auto choice = choose_local_step(held, line_of_one_start(), 6);
            REQUIRE(choice);
            CHECK(choice->step == 8);
            std::erase_if(held, [&](const LocalStep& step) {
                return step.holder == partner_of(lost, n_nodes);
            });
            CHECK_FALSE(choose_local_step(held, line_of_one_start(), 6));
        }
    }
}

TEST_CASE("steps of two manifests are never mixed") {
    LocalStep first = step_of(0, 8, 4);
    LocalStep second = step_of(2, 8, 4);
    second.digest = "another";
    CHECK_FALSE(choose_local_step({first, second}, line_of_one_start(), 6));
    second.digest = first.digest;
    CHECK(choose_local_step({first, second}, line_of_one_start(), 6));
}

TEST_CASE("the line of the newest start has its own steps and their ancestors") {
    std::mt19937 random(11);
    for (int round = 0; round < 500; ++round) {
        std::vector<Saved> steps;
        std::vector<LineageEntry> lineage;
        i64 start = -1;  // index of the step that the newest start resumed from
        const auto counts = [&](i64 at, i64 generation) {
            if (steps[static_cast<size_t>(at)].step.generation == generation) return true;
            for (i64 before = start; before >= 0;
                 before = steps[static_cast<size_t>(before)].parent)
                if (before == at) return true;
            return false;
        };
        std::vector<std::vector<LineageEntry>> lineages;  // by step
        for (i64 generation = 1; generation <= 6; ++generation) {
            start =
                steps.empty() || random() % 8 == 0 ? -1 : static_cast<i64>(random() % steps.size());
            LineageEntry entry{generation, fmt::format("run{}", generation), std::nullopt};
            lineage.clear();
            i64 iteration = 0;
            if (start >= 0) {
                const LocalStep& from = steps[static_cast<size_t>(start)].step;
                lineage = lineages[static_cast<size_t>(start)];
                entry.run_id = from.run_id;
                entry.start = StepReference{from.step, from.digest};
                iteration = from.step;
            }
            lineage.push_back(entry);
            i64 parent = start;
            for (i64 n = static_cast<i64>(random() % 4); n > 0; --n) {
                iteration += 1 + static_cast<i64>(random() % 3);
                LocalStep step = step_of(0, iteration, 1);
                step.generation = generation;
                step.run_id = entry.run_id;
                step.digest = fmt::format("{}.{}", generation, iteration);
                steps.push_back({step, parent});
                lineages.push_back(lineage);
                parent = std::ssize(steps) - 1;
            }
            const Tip line{{INT64_MAX, {}}, lineage};
            for (i64 at = 0; at < std::ssize(steps); ++at) {
                REQUIRE(is_on_branch(steps[static_cast<size_t>(at)].step, line) ==
                        counts(at, generation));
            }
        }
    }
}
