// SPDX-License-Identifier: Apache-2.0
// The lineage of steps: which steps of a directory led to the current one. A rollback, or a start
// from an earlier step, begins a new branch; the later steps of the old branch are abandoned. A
// resume never loads an abandoned step, even when all steps of the current branch are damaged.
//
// The steps of one start of a run (a generation, generation.hpp) follow each other. The lineage of
// a step lists the starts that led to it and the step that each one resumed from. So the lineage
// alone states which steps are ancestors, also when some steps of the branch were pruned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

// The last step of a branch with its lineage; the last entry is the start that wrote the step.
struct Tip {
    StepReference step;
    std::vector<LineageEntry> lineage;
};

Tip tip_of(const Manifest& manifest);  // needs a parsed manifest, which has its digest

// Returns whether a step is the tip or one of its ancestors.
bool on_branch(const Manifest& step, const Tip& tip);

// JSON of a lineage, as `latest` and the generation files hold it.
io::OrderedJson to_json(const std::vector<LineageEntry>& lineage);
std::vector<LineageEntry> lineage_from(const io::Json& list, const std::string& path);

// A global_stepN of a directory. Only its manifest is read.
struct StepEntry {
    i64 step = 0;
    std::string path;
    std::optional<Manifest> manifest;  // nullopt: see `reason`
    std::string reason;                // why the manifest cannot be used
    bool unreadable = false;           // true: the system reported an error, which proves no damage
};

// The steps of a directory and its current branch.
struct Lineage {
    std::vector<StepEntry> steps;  // ascending
    std::optional<i64> latest;     // the step that `latest` names, complete or not
    // The end of the current branch: the step that `latest` names. Without `latest`: the newest
    // step of the newest generation; if that generation has saved no step, the step from which it
    // resumed.
    std::optional<Tip> tip;
    std::string unknown;  // system error that makes the current branch unknown; or empty

    bool current(const StepEntry& step) const;  // whether the step is on the current branch
    // Returns the steps that a resume tries to load, newest first: the tip, which may have no
    // manifest, its ancestors, and earlier steps that cannot be read, which may be ancestors.
    // Throws Error(failure) when the current branch is unknown.
    std::vector<const StepEntry*> candidates() const;
};

// Reads the manifests of all steps of `directory`. Damage and errors of the system are noted in the
// entries.
Lineage read_lineage(const std::string& directory);

}  // namespace lm::ckpt
