// SPDX-License-Identifier: Apache-2.0
// Checkpoints written by all ranks. Each rank writes its pieces into its own files. Rank 0 makes
// the checkpoint visible when all ranks have finished. An error on one rank is thrown on all ranks,
// and earlier checkpoints stay unchanged. All functions are collective.
#pragma once

#include <optional>

#include "ckpt/save.hpp"
#include "comm/group.hpp"

namespace lm::train {

// Claims the next generation of `directory` for this run, which resumes from `start`, on all ranks.
ckpt::Generation claim_generation(comm::Group& world, const std::string& directory,
                                  const std::optional<ckpt::Tip>& start);

// Saves `pieces`, this rank's part of the state. On rank 0, returns the path and the size of the
// checkpoint. Throws JointError naming the rank that failed and its host, after all files of the
// checkpoint have been removed.
ckpt::SaveResult save_distributed(comm::Group& world, const ckpt::Generation& generation,
                                  const ckpt::SaveInfo& info,
                                  const std::vector<ckpt::Piece>& pieces);

}  // namespace lm::train
