// SPDX-License-Identifier: Apache-2.0
// Where a rank stands among all of them and the groups that it belongs to. Ranks are numbered as
// Megatron numbers them: tensor ranks fastest, then data, then pipeline, so that a tensor group
// lies on neighbouring ranks of one node.
#pragma once

#include <memory>

#include "comm/group.hpp"
#include "spec/rank_layout.hpp"

namespace lm::parallel {

struct Coordinates {
    i64 tp = 0;
    i64 pp = 0;
    i64 dp = 0;
    friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

Coordinates coordinates_of(const spec::ParallelConfig& parallel, i64 rank);
i64 rank_of(const spec::ParallelConfig& parallel, const Coordinates& at);

// Groups of size 1 are comm::self: callers need no special case.
struct Grid {
    spec::ParallelConfig parallel;
    Coordinates at;
    std::unique_ptr<comm::Group> world;              // a duplicate of the one that was cut
    std::unique_ptr<comm::Group> tensor;             // the tp ranks of one stage and replica
    std::unique_ptr<comm::Group> pipeline;           // the stages of one (tp, dp), in order
    std::unique_ptr<comm::Group> pipeline_backward;  // the same for gradients: with two stages both
                                                     // ways lead to the same neighbour
    std::unique_ptr<comm::Group> data;               // the replicas of one (tp, pp)
    std::unique_ptr<comm::Group> embedding;  // first and last stage, for tied embeddings; elsewhere
                                             // and with one stage: self
};

// One rank alone.
Grid single();

// Collective over `world`, whose size must be tp * pp * dp; Error(usage) otherwise.
Grid make_grid(comm::Group& world, const spec::ParallelConfig& parallel);

// Tells the groups what a training carries between devices. `overlap`: data parallelism goes on
// while the model computes. `tied`: the word table is the output projection too, whose gradients
// the first and the last stage add up. Collective over the grid.
void connect(Grid& grid, bool overlap, bool tied);

}  // namespace lm::parallel
