// SPDX-License-Identifier: Apache-2.0
// Rank numbers and groups equal Megatron's.
#include "parallel/grid.hpp"

#include <mutex>
#include <set>

#include "base/error.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::parallel;

namespace {

std::vector<spec::ParallelConfig> layouts() {
    std::vector<spec::ParallelConfig> all;
    for (const i64 tp : {1, 2, 3, 4}) {
        for (const i64 pp : {1, 2, 3, 4}) {
            for (const i64 dp : {1, 2, 3}) {
                if (tp * pp * dp <= 24) all.push_back({.tp = tp, .pp = pp, .dp = dp});
            }
        }
    }
    return all;
}

// The global ranks of a group in the group's order.
std::vector<i64> members(comm::Group& group, i64 rank) {
    std::vector<i64> ranks(static_cast<size_t>(group.size()));
    const device::View all{ranks.data(), DType::int64, {group.size()}};
    const device::View mine{&rank, DType::int64, {1}};
    group.all_gather(mine, all);
    return ranks;
}

}  // namespace

TEST_CASE("the numbering is Megatron's: tensor ranks fastest, then data, then pipeline") {
    // The example of Megatron's parallel_state: 16 ranks, tensor 2, pipeline 4, so data 2.
    const spec::ParallelConfig parallel{.tp = 2, .pp = 4, .dp = 2};
    CHECK(coordinates_of(parallel, 0) == spec::Coordinates{.tp = 0, .pp = 0, .dp = 0});
    CHECK(coordinates_of(parallel, 1) == spec::Coordinates{.tp = 1, .pp = 0, .dp = 0});
    CHECK(coordinates_of(parallel, 2) == spec::Coordinates{.tp = 0, .pp = 0, .dp = 1});
    CHECK(coordinates_of(parallel, 4) == spec::Coordinates{.tp = 0, .pp = 1, .dp = 0});
    CHECK(coordinates_of(parallel, 15) == spec::Coordinates{.tp = 1, .pp = 3, .dp = 1});
    for (const spec::ParallelConfig& layout : layouts()) {
        for (i64 rank = 0; rank < layout.tp * layout.pp * layout.dp; ++rank) {
            CHECK(rank_of(layout, coordinates_of(layout, rank)) == rank);
        }
    }
}

TEST_CASE("groups hold the ranks that differ in one coordinate, in order") {
    for (const spec::ParallelConfig& layout : layouts()) {
        INFO("tp " << layout.tp << " pp " << layout.pp << " dp " << layout.dp);
        const i64 n = layout.tp * layout.pp * layout.dp;
        std::mutex mutex;  // Catch's macros are not thread-safe
        comm::run_ranks(static_cast<int>(n), [&](comm::Group& world) {
            const Grid grid = make_grid(world, layout);
            const i64 rank = world.rank();
            const auto expect = [&](comm::Group& group, auto&& ranks_of) {
                const std::vector<i64> got = members(group, rank);
                const std::vector<i64> wanted = ranks_of();
                const std::lock_guard lock(mutex);
                CHECK(got == wanted);
                CHECK(wanted.at(static_cast<size_t>(group.rank())) == rank);
            };
            const auto along = [&](i64 spec::Coordinates::*axis, i64 size) {
                std::vector<i64> ranks;
                for (i64 i = 0; i < size; ++i) {
                    spec::Coordinates at = grid.at;
                    at.*axis = i;
                    ranks.push_back(rank_of(layout, at));
                }
                return ranks;
            };
            expect(*grid.tensor, [&] { return along(&spec::Coordinates::tp, layout.tp); });
            expect(*grid.pipeline, [&] { return along(&spec::Coordinates::pp, layout.pp); });
            expect(*grid.data, [&] { return along(&spec::Coordinates::dp, layout.dp); });
            expect(*grid.embedding, [&] {
                const std::vector<i64> stages = along(&spec::Coordinates::pp, layout.pp);
                const bool at_end = rank == stages.front() || rank == stages.back();
                if (layout.pp == 1 || !at_end) return std::vector<i64>{rank};
                return std::vector<i64>{stages.front(), stages.back()};
            });
            const std::lock_guard lock(mutex);
            CHECK(grid.world->size() == n);
            CHECK(grid.world->rank() == rank);
        });
    }
}

TEST_CASE("a silent grid has the places and sizes of the layout, and moves nothing") {
    for (const spec::ParallelConfig& parallel : layouts()) {
        const i64 n_ranks = parallel.tp * parallel.pp * parallel.dp;
        comm::run_ranks(static_cast<int>(n_ranks), [&](comm::Group& world) {
            const Grid real = make_grid(world, parallel);
            const Grid silent = silent_grid(parallel, world.rank());
            REQUIRE(silent.at == real.at);
            for (const auto& group : {&Grid::world, &Grid::tensor, &Grid::pipeline,
                                      &Grid::pipeline_backward, &Grid::data, &Grid::embedding}) {
                REQUIRE((silent.*group)->rank() == (real.*group)->rank());
                REQUIRE((silent.*group)->size() == (real.*group)->size());
            }
        });
    }
    const Grid grid = silent_grid({.tp = 2, .pp = 2}, 1);
    double x = 3;
    grid.tensor->all_reduce({&x, DType::fp64, {1}});
    grid.pipeline->receive({&x, DType::fp64, {1}}, 1);
    CHECK(x == 3);
}

TEST_CASE("a layout for another number of ranks is a usage error") {
    comm::run_ranks(2, [](comm::Group& world) {
        try {
            (void)make_grid(world, {.tp = 3});
            throw std::runtime_error("accepted");
        } catch (const Error& error) {
            if (error.code() != Exit::usage) throw;
        }
    });
}
