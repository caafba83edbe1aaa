// SPDX-License-Identifier: Apache-2.0
// Checkpoints written by all ranks. Each rank writes its pieces into its own files; rank 0 makes
// the checkpoint visible when all ranks have finished. An error on one rank is thrown on all ranks
// and leaves earlier checkpoints unchanged. All functions are collective.
#pragma once

#include "ckpt/save.hpp"
#include "comm/group.hpp"

namespace lm::train {

// Claims the next generation of `directory` for this run, on all ranks.
ckpt::Generation claim_generation(comm::Group& world, const std::string& directory);

// Saves `pieces`, this rank's part of the state. Returns path and size of the checkpoint on rank 0.
// Throws JointError naming the rank that failed and its host; then no file of the checkpoint
// remains.
ckpt::SaveResult save_distributed(comm::Group& world, const ckpt::Generation& generation,
                                  const ckpt::SaveInfo& info,
                                  const std::vector<ckpt::Piece>& pieces);

}  // namespace lm::train
