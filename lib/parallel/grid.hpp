// SPDX-License-Identifier: Apache-2.0
// The groups that a rank belongs to: one for each dimension of the layout, and those across them.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "spec/rank_layout.hpp"

namespace lm::parallel {

// The groups of one rank. A group that does not exist in the layout is comm::self, so that callers
// need no special case.
struct Grid {
    spec::ParallelConfig parallel;
    spec::Coordinates at;
    std::unique_ptr<comm::Group> world;     // all ranks: a duplicate of make_grid()'s `world`
    std::unique_ptr<comm::Group> tensor;    // the tp ranks of one stage and replica
    std::unique_ptr<comm::Group> pipeline;  // the stages of one (tp, dp), in order
    // A second group of the ranks of `pipeline`, for messages with gradients. With two stages, the
    // previous and the next stage are the same rank, so activations and gradients need separate
    // groups.
    std::unique_ptr<comm::Group> pipeline_backward;
    std::unique_ptr<comm::Group> data;       // the replicas of one (tp, pp)
    std::unique_ptr<comm::Group> embedding;  // first and last stage, for tied embeddings; on other
                                             // stages and with one stage: this rank only
};

// Returns the grid of a run with a single rank.
Grid single();

// Returns the grid of rank `rank` of the layout. Its groups have the sizes of the layout, but move
// no data (comm::SilentGroup). Not collective.
Grid silent_grid(const spec::ParallelConfig& parallel, i64 rank);

// Splits `world` into the groups of this rank. Throws Error(usage) unless `world` has as many ranks
// as the layout. Collective.
Grid make_grid(comm::Group& world, const spec::ParallelConfig& parallel);

// Connects the groups for the messages that a training run sends between devices. `overlap`:
// data-parallel collectives overlap with compute. `tied`: the first and the last stage add up the
// gradients of a word embedding matrix that is also the output projection. `tensor_sms`: SMs that
// tensor-parallel collectives may occupy; 0: no limit. Collective over the grid.
void connect(Grid& grid, bool overlap, bool tied, i64 tensor_sms);

}  // namespace lm::parallel
