// SPDX-License-Identifier: Apache-2.0
#include "parallel/grid.hpp"

#include "base/error.hpp"
#include "comm/self/group.hpp"

namespace lm::parallel {

namespace {

// The group of the ranks that differ in one dimension only, in the order of spec::dimensions.
constexpr std::array groups{&Grid::tensor, &Grid::pipeline, &Grid::data};
static_assert(groups.size() == spec::dimensions.size(), "a dimension has no group");

// Calls f(dimension, group) for each dimension of `grid`.
template <class F>
void for_each_dimension(Grid& grid, F&& f) {
    for (size_t i = 0; i < groups.size(); ++i) f(spec::dimensions[i], grid.*groups[i]);
}

// Returns the group of the ranks that share `color`, ordered by rank. `size`: the largest size of
// these groups, equal on all ranks. With size 1 no rank calls split(), which is collective.
std::unique_ptr<comm::Group> group_of(comm::Group& world, i64 size, i64 color, std::string name) {
    if (size == 1) return comm::self(std::move(name));
    return world.split(static_cast<int>(color), world.rank(), std::move(name));
}

}  // namespace

Grid single() {
    Grid grid{.parallel = {},
              .at = {},
              .world = comm::self("world"),
              .tensor = {},
              .pipeline = {},
              .pipeline_backward = comm::self("pipeline gradient"),
              .data = {},
              .embedding = comm::self("embedding")};
    for_each_dimension(grid, [](const spec::Dimension& dimension, auto& group) {
        group = comm::self(dimension.name);
    });
    return grid;
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
    silence(grid.world, rank, parallel.n_ranks());
    for_each_dimension(grid, [&](const spec::Dimension& dimension, auto& group) {
        silence(group, grid.at.*dimension.at, parallel.*dimension.size);
    });
    silence(grid.pipeline_backward, grid.at.pp, parallel.pp);
    const bool first = grid.at.pp == 0;
    const bool at_end = first || grid.at.pp == parallel.pp - 1;
    silence(grid.embedding, first ? 0 : 1, at_end && parallel.pp > 1 ? 2 : 1);
    return grid;
}

Grid make_grid(comm::Group& world, const spec::ParallelConfig& parallel) {
    const i64 n_ranks = parallel.n_ranks();
    if (n_ranks != world.size()) {
        usage_error("--tensor-model-parallel-size",
                    "{} ranks were started, but {} ranks are {}: start {} ranks or change the "
                    "parallel sizes",
                    world.size(), spec::sizes_text(parallel), n_ranks, n_ranks);
    }
    Grid grid = single();
    grid.parallel = parallel;
    grid.at = coordinates_of(parallel, world.rank());
    grid.world = group_of(world, n_ranks, 0, "world");
    for_each_dimension(grid, [&](const spec::Dimension& dimension, auto& group) {
        spec::Coordinates first = grid.at;
        first.*dimension.at = 0;
        group = group_of(world, parallel.*dimension.size, rank_of(parallel, first), dimension.name);
    });
    if (parallel.pp == 1) return grid;
    grid.pipeline_backward =
        grid.pipeline->split(0, static_cast<int>(grid.at.pp), "pipeline gradient");
    // A stage that is neither the first nor the last needs no embedding group, but must call
    // split(), so it gets a group of its own.
    const bool at_end = grid.at.pp == 0 || grid.at.pp == parallel.pp - 1;
    spec::Coordinates first = grid.at;
    if (at_end) first.pp = 0;
    grid.embedding = group_of(world, 2, rank_of(parallel, first), "embedding");
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
