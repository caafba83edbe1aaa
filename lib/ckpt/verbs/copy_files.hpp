// SPDX-License-Identifier: Apache-2.0
// Copies data files of a step block by block, and verifies every block against its digest before it
// is written.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/index.hpp"

namespace lm::ckpt {

struct CopyResult {
    i64 n_copied = 0;
    i64 n_kept = 0;  // valid bytes of an earlier, interrupted copy
};

struct CopyOptions {
    bool replace = false;  // replace an existing step, in one exchange of names; for copy() only
    std::optional<i64> bytes_per_second;  // upper bound, on average
    // Gets the bytes verified at the destination; may be empty.
    std::function<void(i64 done)> progress;
};

// Copies `files` of `source` into `directory` and makes their content durable. Keeps the blocks of
// existing files that match their digests. Throws DamageError when `source` does not match its
// digests, and Error(failure) when the system cannot read or write.
CopyResult copy_files(const Checkpoint& source, const std::vector<DataFile>& files,
                      const std::string& directory, const CopyOptions& options);

}  // namespace lm::ckpt
