// SPDX-License-Identifier: Apache-2.0
// The number of files of a checkpoint that several nodes write.
#pragma once

#include "base/types.hpp"

namespace lm::ckpt {

// The number of ranks whose files are in one index part of a checkpoint; a node with more ranks has
// one part. So a checkpoint has few index parts, and no rank holds the index of all ranks in
// memory.
constexpr int ranks_per_part = 64;

// Returns the number of nodes whose files are in one index part.
i64 nodes_per_part(i64 n_ranks, i64 n_nodes);
// Returns the most files that a checkpoint of `n_ranks` ranks on `n_nodes` nodes has, its directory
// included.
i64 files_of_checkpoint(i64 n_ranks, i64 n_nodes);

}  // namespace lm::ckpt
