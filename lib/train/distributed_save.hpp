// SPDX-License-Identifier: Apache-2.0
// Checkpoints written by all ranks: each its own pieces into its own files, and rank 0 makes them
// visible when all have confirmed. What fails on one rank fails on all, and the checkpoints that
// were there stay. All functions are collective.
#pragma once

#include "ckpt/save.hpp"
#include "comm/group.hpp"

namespace lm::train {

// Takes the next generation of `directory` for the job.
ckpt::Generation claim_generation(comm::Group& world, const std::string& directory);

// Throws JointError naming the rank that failed, and its host: nothing of the checkpoint stays. The
// result's size is known on rank 0.
ckpt::SaveResult save_distributed(comm::Group& world, const ckpt::Generation& generation,
                                  const ckpt::SaveInfo& info,
                                  const std::vector<ckpt::Piece>& pieces);

}  // namespace lm::train
