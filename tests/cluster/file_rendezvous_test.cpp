// SPDX-License-Identifier: Apache-2.0
// Ranks that meet in a directory, as threads: phases, missing and failed ranks, files of earlier
// runs.
#include <chrono>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "cluster/file_rendezvous.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Runs body(rank) in a thread for each of the ranks; returns their errors.
std::vector<std::string> run(int n_ranks, const std::function<void(int)>& body) {
    std::vector<std::string> errors(static_cast<size_t>(n_ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
        threads.emplace_back(
            [&, rank] { errors[static_cast<size_t>(rank)] = error_of([&] { body(rank); }); });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

}  // namespace

TEST_CASE("all ranks gather the texts of a phase") {
    const test::TempDir dir;
    for (int start = 0; start < 2; ++start) {  // the second one finds the files of the first
        const auto errors = run(4, [&](int rank) {
            FileRendezvous ranks(dir.path(), {.rank = rank, .size = 4}, 60);
            ranks.join();
            ranks.publish("count", std::to_string(10 * start + rank));
            const std::vector<std::string> texts = ranks.gather("count");
            if (texts != std::vector<std::string>{
                             std::to_string(10 * start), std::to_string(10 * start + 1),
                             std::to_string(10 * start + 2), std::to_string(10 * start + 3)}) {
                run_error("texts", "differ");
            }
            ranks.check();
            ranks.publish_last("end", "");
            if (rank == 0) (void)ranks.gather("end");
        });
        for (const std::string& error : errors) CHECK(error == "");
    }
}

TEST_CASE("a single rank needs no files") {
    FileRendezvous ranks("/nonexistent", {.rank = 0, .size = 1}, 1);
    ranks.join();
    ranks.publish("count", "1");
    ranks.check();
    CHECK_FALSE(ranks.leave("an error"));
}

TEST_CASE("missing ranks are named after the timeout") {
    const test::TempDir dir;
    const auto errors =
        run(2, [&](int rank) { FileRendezvous(dir.path(), {.rank = rank, .size = 4}, 1).join(); });
    CHECK_THAT(errors[0], ContainsSubstring("timed out after 1 s waiting for ranks 2, 3 of 4"));
    CHECK_THAT(errors[1], ContainsSubstring("timed out after 1 s waiting for rank 0"));
}

TEST_CASE("a rank that does not respond is named") {
    const test::TempDir dir;
    const auto errors = run(3, [&](int rank) {
        FileRendezvous ranks(dir.path(), {.rank = rank, .size = 3}, 2);
        ranks.join();
        if (rank != 1) (void)ranks.gather("never");
        std::this_thread::sleep_for(
            std::chrono::seconds(1));  // rank 1 is alive, then ends silently
    });
    CHECK(errors[1] == "");
    for (const int rank : {0, 2}) {
        INFO(errors[static_cast<size_t>(rank)]);
        CHECK_THAT(errors[static_cast<size_t>(rank)],
                   ContainsSubstring("rank 1: did not respond for 2 s on host"));
    }
}

TEST_CASE("all ranks throw the first failure, and all but rank 0 leave its report to rank 0") {
    const test::TempDir dir;
    std::vector<int> printed_by_rank0(3);
    const auto errors = run(3, [&](int rank) {
        FileRendezvous ranks(dir.path(), {.rank = rank, .size = 3}, 60);
        ranks.join();
        const std::string error = error_of([&] {
            if (rank == 1) run_error("data.jsonl", "cannot be read");
            (void)ranks.gather("never");
        });
        printed_by_rank0[static_cast<size_t>(rank)] = ranks.leave(error);
        run_error("rank", "{}", error);
    });
    CHECK_THAT(errors[1], ContainsSubstring("data.jsonl: cannot be read"));
    for (const int rank : {0, 2}) {
        INFO(errors[static_cast<size_t>(rank)]);
        CHECK_THAT(
            errors[static_cast<size_t>(rank)],
            ContainsSubstring("rank 1 on ") && ContainsSubstring(": data.jsonl: cannot be read"));
    }
    CHECK(printed_by_rank0 == std::vector<int>{1, 1, 1});
}
