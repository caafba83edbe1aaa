// SPDX-License-Identifier: Apache-2.0
// Checkpoints of several ranks that share the files of their node, and reports of failures.
#include "train/save/node_files.hpp"

#include "ckpt/history/steps.hpp"
#include "ckpt/support.hpp"
#include "ckpt/verbs/verify.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"
#include "train/save/distributed_save.hpp"

using namespace lm;
using namespace lm::train;

namespace {

// Saves the model of salt 1 with `n_ranks` ranks on nodes of `per_node`. The ranks from
// `first_busy` on have equal parts of the elements. If there are `broken` ranks, saves twice: in
// the first save these ranks cannot read their first piece. Returns the error of each rank.
std::vector<std::string> save_on_ranks(const std::string& directory, int n_ranks, int per_node,
                                       int first_busy = 0, std::vector<int> broken = {}) {
    const auto config = test::small_model();
    std::vector<std::string> errors(static_cast<size_t>(n_ranks));
    comm::run_ranks(n_ranks, [&](comm::Group& world) {
        test::Buffers buffers(config, {});
        buffers.fill(config, 1);
        const int rank = world.rank();
        const i64 n = buffers.layout.n_elements;
        const i64 n_busy = n_ranks - first_busy;
        const i64 at = std::max(0, rank - first_busy);
        std::vector<ckpt::Piece> pieces;
        if (rank >= first_busy) pieces = buffers.pieces(n * at / n_busy, n * (at + 1) / n_busy);
        const ckpt::SaveInfo info = test::info_of(config, 5);
        const auto files = NodeFiles::plan(world, world.split(rank / per_node, rank, "node"),
                                           ckpt::tensors_of(info.model, info.weights), pieces);
        CHECK(files->n_files() >= 2 * ceil_div(i64{n_ranks}, i64{per_node}) + 3);
        const ckpt::Generation generation = claim_generation(world, directory, {});
        for (int attempt = broken.empty() ? 1 : 0; attempt < 2; ++attempt) {
            std::vector<ckpt::Piece> own = pieces;
            if (attempt == 0 && std::ranges::find(broken, rank) != broken.end()) {
                own.front().read = [rank](std::span<std::byte>, i64) {
                    run_error("piece", "of rank {} cannot be read", rank);
                };
            }
            DistributedSave save(world, *files, generation, info);
            save.begin({});
            save.write(own);
            try {
                save.commit();
            } catch (const JointError& error) {
                errors[static_cast<size_t>(rank)] = error.what();
                // Rank 0 creates the directory of the next save.
                if (rank == 0) CHECK_FALSE(io::exists(ckpt::temporary_path(generation, 5)));
            }
        }
    });
    return errors;
}

void check_step(const std::string& directory, i64 n_nodes) {
    const std::string step = directory + "/global_step5";
    const auto problems = ckpt::verify(step, nullptr).problems;
    CHECK((problems.empty() ? "" : problems.front().line()) == "");
    test::check_grid(ckpt::Checkpoint::open(step), test::small_model(), {}, 1);
    i64 n_data_files = 0;
    for (const std::string& name : io::list_directory(step)) {
        n_data_files += name.ends_with(".safetensors");
    }
    CHECK(n_data_files == 2 * n_nodes);
}

}  // namespace

TEST_CASE("the ranks of a node share two data files") {
    for (const int n_ranks : {1, 2, 5, 8}) {
        for (const int per_node : {1, 2, 3, 8}) {
            INFO(n_ranks << " ranks, " << per_node << " in a node");
            const test::ScratchDirectory scratch;
            save_on_ranks(scratch.path(), n_ranks, per_node);
            check_step(scratch.path(), ceil_div(n_ranks, per_node));
        }
    }
}

TEST_CASE("the leader of a node may have no state of its own") {
    const test::ScratchDirectory scratch;
    save_on_ranks(scratch.path(), 6, 3, 1);
    check_step(scratch.path(), 2);
}

TEST_CASE("a failed save reports the first rank that failed, on all ranks; the next save works") {
    const std::vector<std::vector<int>> cases{{0}, {1}, {3, 2}, {7}, {6, 4, 5}};
    for (const std::vector<int>& broken : cases) {
        const int first = *std::ranges::min_element(broken);
        INFO("rank " << first);
        const test::ScratchDirectory scratch;
        for (const std::string& error : save_on_ranks(scratch.path(), 8, 2, 0, broken)) {
            CHECK_THAT(error, HasInOrder("piece: ", fmt::format("rank {} ", first)));
            CHECK(error.starts_with(fmt::format("rank {} on ", first)));
        }
        check_step(scratch.path(), 4);
    }
}

TEST_CASE("reports are joined in the order of ranks for any number of ranks") {
    for (int n_ranks = 1; n_ranks <= 9; ++n_ranks) {
        comm::run_ranks(n_ranks, [&](comm::Group& world) {
            SaveReport own{.text = fmt::format("{} ", world.rank())};
            join_reports(world, own);
            if (world.rank() != 0) return;
            std::string all;
            for (int rank = 0; rank < n_ranks; ++rank) all += fmt::format("{} ", rank);
            CHECK(own.text == all);
        });
    }
}
