// SPDX-License-Identifier: Apache-2.0
// The number and sizes of the files of a checkpoint that several nodes write.
#pragma once

#include <span>

#include "ckpt/format/index.hpp"

namespace lm::ckpt {

// An index part of a checkpoint has the files of at most this many ranks, or of one node if the
// node has more ranks. So a checkpoint has few index parts, and no rank needs memory for the index
// of all ranks.
constexpr int ranks_per_part = 64;

// Returns the number of nodes whose files are in one index part.
i64 nodes_per_part(i64 n_ranks, i64 n_nodes);
// Returns the largest possible number of files of a checkpoint that `n_ranks` ranks on `n_nodes`
// nodes write. The directory counts as a file.
i64 files_of_checkpoint(i64 n_ranks, i64 n_nodes);

// The text of a manifest is padded with spaces before its digest, so that the padding and all keys
// but `tensors` and `index` together have a multiple of this number of bytes. Thus the size of the
// manifest does not depend on the command line, host, data and counters of a run, and can be
// planned.
constexpr i64 manifest_room = i64{32} << 10;

// Joins the shares of one file after place_shares() has placed them. Returns the file with the
// slices and digests of all shares in order. Moves the slices and digests out of the shares.
DataFile join_shares(std::span<DataFile* const> shares);

}  // namespace lm::ckpt
