// SPDX-License-Identifier: Apache-2.0
// Copies of the files of each node at its partner, over threads and over TCP.
#include "train/save/partner_copy.hpp"

#include <thread>

#include "ckpt/history/local_steps.hpp"
#include "ckpt/support.hpp"
#include "ckpt/verbs/verify.hpp"
#include "comm/tcp/world.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"
#include "support/free_port.hpp"
#include "train/save/distributed_save.hpp"

using namespace lm;
using namespace lm::train;

namespace {

using Body = std::function<void(comm::Group& world)>;

// Runs body(world) on threads whose messages pass through the hub of rank 0 (comm/tcp).
void run_over_tcp(int n_ranks, const Body& body) {
    comm::Meeting meeting{.rank = 0, .size = n_ranks, .host = "127.0.0.1", .token = "partners"};
    meeting.port = test::free_port();
    std::vector<std::string> errors(static_cast<size_t>(n_ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
        threads.emplace_back([&, rank] {
            comm::Meeting own = meeting;
            own.rank = rank;
            errors[static_cast<size_t>(rank)] = test::error_of([&] {
                comm::TcpWorld joined(own, {.timeout_s = 60});
                joined.join();
                body(joined.world());
            });
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) CHECK(error == "no error");
}

void run_over_threads(int n_ranks, const Body& body) {
    comm::run_ranks(n_ranks, body);
}

// The directories of the nodes: node 3 writes to PATH/3.
std::string directory_of(const std::string& path, i64 node) {
    return fmt::format("{}/{}", path, node);
}

// Saves the model of salt 1 to the directories of the nodes and exchanges the files. Rank `broken`
// cannot read the files of its node. Returns the errors of the ranks.
std::vector<std::string> save_on_nodes(const std::string& path, int n_nodes, int per_node,
                                       bool over_tcp, int broken = -1) {
    const auto config = test::small_model();
    const int n_ranks = n_nodes * per_node;
    std::vector<std::string> errors(static_cast<size_t>(n_ranks));
    const Body body = [&](comm::Group& world) {
        const int rank = world.rank();
        test::Buffers buffers(config, {});
        buffers.fill(config, 1);
        const i64 n = buffers.layout.n_elements;
        const auto pieces = buffers.pieces(n * rank / n_ranks, n * (rank + 1) / n_ranks);
        const ckpt::SaveInfo info = test::info_of(config, 5);
        const auto files = NodeFiles::plan(world, world.split(rank / per_node, rank, "node"),
                                           ckpt::tensors_of(info.model, info.weights), pieces);
        const auto partner = PartnerCopy::connect(world, *files);
        const std::string own = directory_of(path, files->number());
        if (files->leads()) io::make_directories(own);
        world.barrier();
        SaveReport report;
        report.add(rank, [&] { report.text = files->write(own, pieces); });
        files->write_node_index(own, report);
        conclude(world, report);
        if (rank == 0) {
            const ckpt::Generation generation{path, 1, "run", {}};
            test::write(path + "/manifest.json",
                        ckpt::manifest_text(
                            ckpt::manifest_of(generation, info, references_from(report.text))));
        }
        const std::exception_ptr error =
            partner->exchange(rank == broken ? path + "/missing" : own);
        errors[static_cast<size_t>(rank)] = test::error_of([&] {
            if (error) std::rethrow_exception(error);
        });
        world.barrier();
    };
    over_tcp ? run_over_tcp(n_ranks, body) : run_over_threads(n_ranks, body);
    return errors;
}

// Joins the files of all nodes but `lost` to one step, and checks its bytes.
void check_without(const std::string& path, int n_nodes, int lost) {
    const std::string step = fmt::format("{}/without{}/global_step5", path, lost);
    io::make_directories(step);
    test::write(step + "/manifest.json", test::read(path + "/manifest.json"));
    for (int node = 0; node < n_nodes; ++node) {
        if (node == lost) continue;
        const std::string directory = directory_of(path, node);
        for (const std::string& name : io::list_directory(directory)) {
            const std::string bytes = test::read(directory + "/" + name);
            if (io::exists(step + "/" + name)) CHECK(test::read(step + "/" + name) == bytes);
            test::write(step + "/" + name, bytes);
        }
    }
    const auto problems = ckpt::verify(step, nullptr).problems;
    CHECK((problems.empty() ? "" : problems.front().line()) == "");
    test::check_grid(ckpt::Checkpoint::open(step), test::small_model(), {}, 1);
}

}  // namespace

TEST_CASE("the files of all nodes but one are the whole step") {
    const bool over_tcp = GENERATE(false, true);
    for (const auto& [n_nodes, per_node] : {std::pair(2, 2), std::pair(3, 1), std::pair(5, 2)}) {
        INFO(n_nodes << " nodes of " << per_node << " ranks, TCP: " << over_tcp);
        const test::ScratchDirectory scratch;
        for (const std::string& error :
             save_on_nodes(scratch.path(), n_nodes, per_node, over_tcp)) {
            CHECK(error == "no error");
        }
        for (int lost = 0; lost < n_nodes; ++lost) check_without(scratch.path(), n_nodes, lost);
    }
}

TEST_CASE("a rank that cannot read its files reports that, and no other rank waits for it") {
    const bool over_tcp = GENERATE(false, true);
    const test::ScratchDirectory scratch;
    const auto errors = save_on_nodes(scratch.path(), 3, 2, over_tcp, 4);
    for (size_t rank = 0; rank < errors.size(); ++rank) {
        INFO("rank " << rank);
        CHECK_THAT(errors[rank], ContainsSubstring(rank == 4 ? "missing" : ""));
    }
}
