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

#include "ckpt/copy_plan.hpp"

namespace lm::ckpt {

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
