// SPDX-License-Identifier: Apache-2.0
#include "parallel/grid.hpp"

#include "base/error.hpp"
#include "base/shape.hpp"
#include "comm/self/group.hpp"
#include "comm/self/silent_group.hpp"

namespace lm::parallel {

Coordinates coordinates_of(const spec::ParallelConfig& parallel, i64 rank) {
    return {.tp = rank % parallel.tp,
            .pp = rank / (parallel.tp * parallel.dp),
            .dp = rank / parallel.tp % parallel.dp};
}

i64 rank_of(const spec::ParallelConfig& parallel, const Coordinates& at) {
    return (at.pp * parallel.dp + at.dp) * parallel.tp + at.tp;
}

Grid single() {
    return {.parallel = {},
            .at = {},
            .world = comm::self("world"),
            .tensor = comm::self("tensor"),
            .pipeline = comm::self("pipeline"),
            .pipeline_backward = comm::self("pipeline gradient"),
            .data = comm::self("data"),
            .embedding = comm::self("embedding")};
}

Grid silent_grid(const spec::ParallelConfig& parallel, i64 rank) {
    Grid grid = single();
    grid.parallel = parallel;
    grid.at = coordinates_of(parallel, rank);
    const auto silence = [](std::unique_ptr<comm::Group>& group, i64 at, i64 size) {
        if (size == 1) return;
        group = std::make_unique<comm::SilentGroup>(group->name(), static_cast<int>(at),
                                                    static_cast<int>(size));
    };
    silence(grid.world, rank, parallel.tp * parallel.pp * parallel.dp);
    silence(grid.tensor, grid.at.tp, parallel.tp);
    silence(grid.pipeline, grid.at.pp, parallel.pp);
    silence(grid.pipeline_backward, grid.at.pp, parallel.pp);
    silence(grid.data, grid.at.dp, parallel.dp);
    const bool first = grid.at.pp == 0;
    const bool at_end = first || grid.at.pp == parallel.pp - 1;
    silence(grid.embedding, first ? 0 : 1, at_end && parallel.pp > 1 ? 2 : 1);
    return grid;
}

namespace {

// Returns the group of the ranks that share `color`, ordered by rank. `size`: the largest size of
// these groups, equal on all ranks. With size 1 no rank calls split(), which is collective.
std::unique_ptr<comm::Group> group_of(comm::Group& world, i64 size, i64 color, const char* name) {
    if (size == 1) return comm::self(name);
    return world.split(static_cast<int>(color), world.rank(), name);
}

}  // namespace

Grid make_grid(comm::Group& world, const spec::ParallelConfig& parallel) {
    const i64 n_ranks = checked_mul(checked_mul(parallel.tp, parallel.pp), parallel.dp);
    if (n_ranks != world.size()) {
        usage_error("--tensor-model-parallel-size",
                    "{} ranks were started, but {} tensor x {} pipeline x {} data ranks are {}: "
                    "start {} ranks or change the parallel sizes",
                    world.size(), parallel.tp, parallel.pp, parallel.dp, n_ranks, n_ranks);
    }
    const Coordinates at = coordinates_of(parallel, world.rank());
    Grid grid = single();
    grid.parallel = parallel;
    grid.at = at;
    grid.world = group_of(world, n_ranks, 0, "world");
    grid.tensor = group_of(world, parallel.tp, rank_of(parallel, {0, at.pp, at.dp}), "tensor");
    grid.pipeline = group_of(world, parallel.pp, rank_of(parallel, {at.tp, 0, at.dp}), "pipeline");
    if (parallel.pp > 1) {
        grid.pipeline_backward =
            grid.pipeline->split(0, static_cast<int>(at.pp), "pipeline gradient");
    }
    grid.data = group_of(world, parallel.dp, rank_of(parallel, {at.tp, at.pp, 0}), "data");
    if (parallel.pp == 1) return grid;
    // A stage that is neither the first nor the last needs no embedding group, but must call
    // split(), so it gets a group of its own.
    const bool at_end = at.pp == 0 || at.pp == parallel.pp - 1;
    const i64 color = rank_of(parallel, {at.tp, at_end ? 0 : at.pp, at.dp});
    grid.embedding = group_of(world, 2, color, "embedding");
    return grid;
}

// When each stage has several chunks, the last stage also sends activations to the first stage.
void connect(Grid& grid, bool overlap, bool tied, i64 tensor_sms) {
    grid.tensor->connect({.collectives = true, .max_sms = tensor_sms});
    grid.data->connect({.collectives = true, .overlaps_compute = overlap});
    if (tied) grid.embedding->connect({.collectives = true, .overlaps_compute = true});
    const auto last = static_cast<int>(grid.parallel.pp) - 1;
    if (last == 0) return;
    const bool around = grid.parallel.n_chunks > 1;
    const auto stage = static_cast<int>(grid.at.pp);
    std::vector<int> next;
    std::vector<int> before;
    if (stage < last || around) next.push_back(stage < last ? stage + 1 : 0);
    if (stage > 0 || around) before.push_back(stage > 0 ? stage - 1 : last);
    grid.pipeline->connect({.to = next, .from = before});
    grid.pipeline_backward->connect({.to = before, .from = next});
}

}  // namespace lm::parallel
