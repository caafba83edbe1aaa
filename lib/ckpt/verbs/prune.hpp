// SPDX-License-Identifier: Apache-2.0
// Chooses the steps and left-overs to remove from a checkpoint directory, and removes them. The
// rules apply to the complete steps of the current branch (lineage.hpp). Steps of other branches
// are removed only if PruneRules::abandoned is set.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/named.hpp"
#include "base/types.hpp"
#include "ckpt/history/lineage.hpp"
#include "spec/save_schedule.hpp"

namespace lm::ckpt {

// A step is kept when at least one rule keeps it.
struct KeepPolicy {
    i64 last = 0;                           // keep the newest `last` steps
    i64 every = 0;                          // keep the multiples of `every`; 0: no such rule
    std::vector<i64> steps;                 // keep these steps
    std::vector<spec::SaveRange> schedule;  // keep the steps that this schedule saves
    bool empty() const { return last == 0 && every == 0 && steps.empty() && schedule.empty(); }
};

struct PruneRules {
    KeepPolicy keep;  // empty: remove no step of the current branch
    // Number of the newest kept steps that also keep their optimizer state, at least 1; nullopt:
    // all kept steps.
    std::optional<i64> full_steps;
    bool abandoned = false;             // remove the steps of other branches
    std::optional<double> leftovers_s;  // remove left-overs older than this many seconds
};

enum class PruneKind { step, optimizer_state, abandoned, leftover };
// The names that --json prints.
inline constexpr std::array prune_kinds{
    Named{PruneKind::step, "step"}, Named{PruneKind::optimizer_state, "optimizer_state"},
    Named{PruneKind::abandoned, "abandoned"}, Named{PruneKind::leftover, "leftover"}};

struct PruneAction {
    PruneKind kind = PruneKind::step;
    std::string name;  // name of the step or left-over
    i64 bytes = 0;     // bytes that the action frees
};

struct PrunePlan {
    std::vector<i64> kept;             // complete steps of the current branch
    std::vector<PruneAction> actions;  // in the order of their execution
    std::optional<i64> newest;         // the newest of `kept`; a run loads this step
};

// Returns the steps that no rule keeps, ascending. `latest` and the newest step are always kept.
std::vector<i64> steps_to_remove(std::vector<i64> complete_steps, const KeepPolicy& policy,
                                 std::optional<i64> latest);

// Returns why no step should be removed, here and in a backup: `latest` names a step that is
// missing or whose manifest cannot be used. Returns an empty text when there is no such reason.
std::string problem_of_latest(const std::string& directory, const Lineage& lineage);

// Plans the removals in `directory`. `complete` are the complete steps of the current branch,
// ascending; `protect` are steps that stay unchanged in spite of the rules.
PrunePlan plan_prune(const std::string& directory, const Lineage& lineage,
                     const std::vector<i64>& complete, const PruneRules& rules,
                     const std::vector<i64>& protect = {});

// Carries out the actions of a plan; calls `done`, which may be empty, after each action. Before it
// removes a step, waits until no other program copies that step. After a kill, each step is whole
// or has a name with ".tmp.". To remove the optimizer state of a step, its weights are copied;
// `rewriting`, which may be empty, gets the progress of the copy in bytes.
void prune(const std::string& directory, const PrunePlan& plan,
           const std::function<void(const PruneAction&)>& done,
           const std::function<void(i64 done, i64 total)>& rewriting = {});

// Removes a directory NAME of `directory`: renames it to NAME.tmp.removed, makes the rename
// durable, then removes the files. A crash in between leaves NAME or NAME.tmp.removed, never a step
// with missing files.
void remove_whole(const std::string& directory, const std::string& name);
// Removes the NAME.tmp.removed directories that interrupted removals left in `directory`.
void finish_removals(const std::string& directory);

}  // namespace lm::ckpt
