// SPDX-License-Identifier: Apache-2.0
// The lineage of a step states from which earlier steps of the directory the step was trained. A
// rollback, or a start from an earlier step, begins a new branch; the later steps of the old branch
// are abandoned. A resume never loads an abandoned step, even when all steps of the current branch
// are damaged.
//
// The steps of one start of a run (a generation, generation.hpp) follow each other. The lineage of
// a step lists the starts of its branch, and the step from which each start resumed. So the lineage
// alone determines which steps are ancestors, even after some steps of the branch were pruned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

// The last step of a branch, with its lineage. The last entry of the lineage is the start that
// wrote the step.
struct Tip {
    StepReference step;
    std::vector<LineageEntry> lineage;
};

Tip tip_of(const Manifest& manifest);  // needs a parsed manifest, which contains its digest

// Returns whether a step is the tip or one of its ancestors.
bool on_branch(const Manifest& step, const Tip& tip);

// A step global_stepN of a directory. Only its manifest is read.
struct StepEntry {
    i64 step = 0;
    std::string path;
    std::optional<Manifest> manifest;  // nullopt: see `reason`
    std::string reason;                // why the manifest cannot be used
    bool unreadable = false;           // an error that does not prove damage
};
// Returns the step with this number; nullptr when `steps` does not have it.
const StepEntry* find_step(const std::vector<StepEntry>& steps, i64 step);

// The steps of a directory and its current branch.
struct Lineage {
    std::vector<StepEntry> steps;  // by iteration, ascending
    std::optional<i64> latest;     // the step that `latest` names, even if incomplete
    // The end of the current branch: the step that `latest` names. Without `latest`, the newest
    // step of the newest generation. If that generation has saved no step, the step from which the
    // generation resumed.
    std::optional<Tip> tip;
    std::string unknown;  // why the current branch is unknown; empty: the branch is known

    bool current(const StepEntry& step) const;  // whether the step is on the current branch
    // Returns the steps that a resume tries to load, newest first. These are the tip (even if it
    // has no manifest), the ancestors of the tip, and earlier steps that cannot be read, because
    // they may be ancestors. Throws Error(failure) when the current branch is unknown.
    std::vector<const StepEntry*> candidates() const;
};

// Reads the manifests of all steps of `directory`. The entries record damage and errors of the
// system.
Lineage read_lineage(const std::string& directory);

}  // namespace lm::ckpt
