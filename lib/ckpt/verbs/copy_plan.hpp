// SPDX-License-Identifier: Apache-2.0
// The content of a copy of a step: data files with their digests, and documents (the texts of the
// index parts and the manifest).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/index.hpp"

namespace lm::ckpt {

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

// Returns whether the step at `path` equals the step that the plan would create. Compares the
// manifests, which hold the digests of all other files.
bool is_copied(const CopyPlan& plan, const std::string& path);

}  // namespace lm::ckpt
