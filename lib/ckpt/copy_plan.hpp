// SPDX-License-Identifier: Apache-2.0
// The content of a copy of a step: files with the digests of their regions, and documents.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace lm::ckpt {

// A file to copy. It consists of adjacent regions, each with a digest.
struct CopyFile {
    struct Region {
        i64 end = 0;  // offset; the region starts at the end of the previous one
        std::string digest;
        std::string what;  // its name in messages: "tensor x (weight)"
    };
    std::string name;
    std::vector<Region> regions;
    i64 size() const { return regions.back().end; }
};

struct CopyPlan {
    std::string from;  // directory of the step
    std::vector<CopyFile> files;
    std::vector<std::pair<std::string, std::string>> documents;  // name, text; the manifest last
    i64 n_bytes() const;                                         // total size of the data files
};

// Returns the plan of a copy. With `weights_only` the copy has no masters and moments, and its
// index and manifest do not list them. Throws Error(failure) when the data files and the index
// contradict each other.
CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only);

// Returns whether the step at `path` equals the step that the plan would create. Compares the
// manifests, which hold the digests of all other files.
bool is_copied(const CopyPlan& plan, const std::string& path);

}  // namespace lm::ckpt
