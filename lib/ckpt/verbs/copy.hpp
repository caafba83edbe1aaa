// SPDX-License-Identifier: Apache-2.0
// Copies a step file by file, and verifies every byte against the digests of the step before it
// writes the byte. The copy grows in a temporary directory, which survives a kill:
//
//     STEP.tmp.copy: data files, each fsynced -> index parts -> manifest.json -> renamed to STEP
//
// After a crash before the rename, STEP does not exist, only STEP.tmp.copy. The next copy to the
// same place verifies the files in STEP.tmp.copy, keeps the blocks that match their digests, and
// copies the other blocks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/verbs/copy_files.hpp"
#include "io/directory.hpp"

namespace lm::ckpt {

// The content of a copy of a step: data files with their digests, and documents (the texts of the
// index parts, the files of the tokenizer and the manifest).
struct CopyPlan {
    Checkpoint source;
    std::string from;  // directory of the step
    std::vector<DataFile> files;
    std::vector<std::pair<std::string, std::string>> documents;  // name, text; the manifest last
    i64 n_bytes() const;                                         // total size of the data files
};

// Returns the plan of a copy. With `weights_only` the copy has neither masters nor moments, and its
// index and manifest do not list them. Files are copied whole, so `weights_only` throws
// Error(failure) when a data file has both weights and optimizer state.
CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only);

// Creates in the empty `directory` the documents of the plan and a symbolic link to each data
// file. This directory can be read like the copy, without copying the data. lm-ckpt sync
// sends it with rsync and rclone. Throws Error(failure) when a data file is itself a link.
void link(const CopyPlan& plan, const io::Directory& directory);

// Returns whether the step at `path` equals the step that the plan would create. Compares the
// manifests, which hold the digests of all other files.
bool is_copied(const CopyPlan& plan, const std::string& path);

// Returns the temporary directory of a copy to `path`.
std::string copy_temporary(const std::string& path);

// Returns whether the file system of `path` has enough free space for the copy. An earlier,
// incomplete copy counts as free space.
bool has_space(const CopyPlan& plan, const std::string& path);
// Throws Error(failure) when has_space() does not hold.
void require_space(const CopyPlan& plan, const std::string& path);

// Creates the step `path`. Throws DamageError when the source does not match its digests, and
// Error(failure) when writing fails, another copy to `path` is running, or `path` exists and must
// not be replaced. After an error the files that were already copied stay for the next attempt.
CopyResult copy(const CopyPlan& plan, const std::string& path, const CopyOptions& options);

}  // namespace lm::ckpt
