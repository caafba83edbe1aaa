// SPDX-License-Identifier: Apache-2.0
// The number of files of a checkpoint that several nodes write.
#pragma once

#include "base/types.hpp"

namespace lm::ckpt {

// An index part of a checkpoint has the files of at most this many ranks, or of one node if the
// node has more ranks. So a checkpoint has few index parts, and no rank needs memory for the index
// of all ranks.
constexpr int ranks_per_part = 64;

// Returns the number of nodes whose files are in one index part.
i64 nodes_per_part(i64 n_ranks, i64 n_nodes);
// Returns the largest number of files of a checkpoint by `n_ranks` ranks on `n_nodes` nodes. The
// directory counts as a file.
i64 files_of_checkpoint(i64 n_ranks, i64 n_nodes);

}  // namespace lm::ckpt
