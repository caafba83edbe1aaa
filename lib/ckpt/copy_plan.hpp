// SPDX-License-Identifier: Apache-2.0
// What a copy of a step consists of: files with the digests of their regions, and documents.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace lm::ckpt {

// A file to copy: its regions, which have a digest each, follow each other without gaps.
struct CopyFile {
    struct Region {
        i64 end = 0;  // it begins where the one before ends
        std::string digest;
        std::string what;  // "tensor x (weight)"
    };
    std::string name;
    std::vector<Region> regions;
    i64 size() const { return regions.back().end; }
};

struct CopyPlan {
    std::string from;  // of a step
    std::vector<CopyFile> files;
    std::vector<std::pair<std::string, std::string>> documents;  // name, text; the manifest last
    i64 n_bytes() const;                                         // of the files
};

// With `weights_only` masters and moments stay out, and index and manifest know of none. Throws
// Error(failure) when files and index do not fit together.
CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only);

// Is the step at `path` what the plan would make? By its manifest, which has the digests of all.
bool is_copied(const CopyPlan& plan, const std::string& path);

}  // namespace lm::ckpt
