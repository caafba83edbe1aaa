// SPDX-License-Identifier: Apache-2.0
// Fencing of a checkpoint directory. Each start of a run claims the next generation number by
// creating DIR/generation-N exclusively (O_EXCL). A run with an older number must not write any
// more. Otherwise ranks of a node that had lost the network could overwrite the steps of the run
// that replaced their run.
//
// The number is checked before a save begins and again right before the rename of the save
// (save.hpp). Between the second check and the rename a newer run may still claim the directory.
// That is safe, because the rename publishes a complete step or fails. This holds because claim()
// renames a temporary directory before it removes the files.
//
// The number is also in DIR/fence.json, and in `latest` and the manifests of the steps that the run
// saves. So the fence also works after the files generation-* were deleted.
//
// The numbers of two directories cannot be compared. So a run also stops when neither file has its
// own claim: somebody has moved the directory away, and DIR is now another directory, perhaps that
// of another run.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"
#include "ckpt/history/lineage.hpp"

namespace lm::ckpt {

constexpr std::string_view fence_file = "fence.json";
constexpr std::string_view generation_prefix = "generation-";

// Returns whether a file in a directory of steps has the name of a claim. Only trainings and
// rollbacks write claims, so a backup has none.
bool is_claim(std::string_view name);

struct Generation {
    std::string directory;
    i64 number = 0;
    std::string run_id = {};
    std::vector<LineageEntry> lineage = {};  // the last entry is this start
    // The text of generation-N, by which the process that has claimed finds its directory again.
    // Empty on other ranks, and for saves into a new directory that nobody claims.
    std::string claim = {};
};

// The content of a generation file.
struct Claim {
    i64 number = 0;
    std::optional<StepReference> start;  // the step that the run resumed from; nullopt: a new run
    std::vector<LineageEntry> lineage;
    std::string who;  // "host n1, process 7, job 3, started 2026-01-31T12:00:00Z"
};

// Claims the next generation of `directory`, which is created if needed. `start` is the step to
// resume from; the generation continues the run id and the lineage of this step. Without `start` a
// new run begins. Removes the temporary directories of older generations, with a note for each, and
// reports an older run that may still be alive.
Generation claim(const std::string& directory, const std::optional<Tip>& start = {});

// Returns the newest claim in the newest generation file and fence.json of `directory`, whichever
// is newer; nullopt when neither has a complete claim.
std::optional<Claim> newest_claim(const std::string& directory);

// Throws Error(superseded) if a newer run has claimed the directory, and names that run, or if the
// directory no longer has the claim of `generation`.
void check_not_superseded(const Generation& generation);

}  // namespace lm::ckpt
