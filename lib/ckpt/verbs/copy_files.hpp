// SPDX-License-Identifier: Apache-2.0
// Copies data files of a step block by block, and verifies each block against its digest before it
// writes the block.
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
    i64 n_kept = 0;  // valid bytes that an earlier, interrupted copy has left
};

struct CopyOptions {
    bool replace = false;                 // only for copy(): replace an existing step
    std::optional<i64> bytes_per_second;  // upper bound, on average
    // If set, it is called with the number of verified bytes that the destination has so far.
    std::function<void(i64 done)> progress;
};

// Copies `files` of `source` into `directory` and makes their content durable. Keeps the blocks of
// existing files that match their digests. Throws DamageError when `source` does not match its
// digests, and Error(failure) when the system cannot read or write.
CopyResult copy_files(const Checkpoint& source, const std::vector<DataFile>& files,
                      const std::string& directory, const CopyOptions& options);

}  // namespace lm::ckpt
