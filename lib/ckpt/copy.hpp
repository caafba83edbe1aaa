// SPDX-License-Identifier: Apache-2.0
// Copies a step file by file to another place, and holds every byte against the digests of the
// manifest while it passes. The copy grows in a temporary directory that outlives a kill:
//
//     STEP.tmp.copy: data files, each fsynced -> index parts -> manifest.json -> renamed to STEP
//
// What is found there is believed only as far as it fits the digests, whoever left it; the copy
// goes on behind that.
#pragma once

#include <functional>
#include <optional>
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

std::string copy_temporary(const std::string& path);

struct CopyOptions {
    bool replace = false;                    // a step that is there; it goes in one exchange
    std::optional<i64> bytes_per_second;     // at most, on average
    std::function<void(i64 done)> progress;  // bytes that are good at the other end; may be empty
};

struct CopyResult {
    i64 n_copied = 0;
    i64 n_kept = 0;  // bytes that an earlier copy had left there, good
};

// `path` is the step to make. Throws DamageError when the source does not fit its digests, and
// Error(failure) when it cannot be written, another copy to `path` is at work, or `path` is there
// and shall not be replaced. What was copied stays for the next attempt.
CopyResult copy(const CopyPlan& plan, const std::string& path, const CopyOptions& options);

}  // namespace lm::ckpt
