// SPDX-License-Identifier: Apache-2.0
#include "train/resume/refused_iterations.hpp"

#include <array>
#include <sstream>

#include "cli/options.hpp"
#include "comm/self/group.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

namespace {

// Returns digest_of_batches() of a run with the flags `more`.
std::string digest_with(const std::string& more) {
    cli::Options options("lm-test", "a test");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    std::istringstream words(
        "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --vocab-size 64 --mock-data "
        "--micro-batch-size 1 --lr 1e-3 --device cpu --threads 1 " +
        more);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    options.parse(arguments);
    return digest_of_batches(resolve(flags, "lm-train"), io::OrderedJson::array());
}

}  // namespace

TEST_CASE("refused iterations survive a restart") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    io::make_directories(run);
    const auto world = comm::self("world");
    const auto read = [&](const std::string& batches) {
        return RefusedIterations::read(*world, run, "", batches, 0);
    };
    RefusedIterations refused = read("a");
    CHECK(refused.find(5) == nullptr);
    refused.add({.first = 5, .last = 5, .spike = true, .in_a_row = 2});
    refused.add({.first = 12, .last = 12, .in_a_row = 1});
    const RefusedRange window{.first = 9, .last = 20, .rolled_back = true, .spike = true};
    refused.add(window);

    const RefusedIterations restarted = read("a");
    REQUIRE(restarted.find(5) != nullptr);
    CHECK(*restarted.find(5) == *refused.find(5));
    CHECK(*restarted.find(12) == window);  // the window contains the single iteration
    CHECK(restarted.find(8) == nullptr);
    CHECK(restarted.find(21) == nullptr);
    CHECK(read("b").find(5) == nullptr);  // other batches

    // The load of a rollback found a newer step than was expected.
    refused.add({.first = 15, .last = 20, .rolled_back = true});
    CHECK(refused.find(14) == nullptr);
    CHECK(refused.find(15) != nullptr);

    io::write_file(fmt::format("{}/{}", run, refused_iterations_file), "{", io::Overwrite::yes);
    CHECK(read("a").find(5) == nullptr);  // with a warning
}

TEST_CASE("a run with another --save adopts what the run of --load refused") {
    const test::TempDir scratch;
    const std::string from = scratch / "from", to = scratch / "to";
    io::make_directories(from + "/global_step3");
    const auto world = comm::self("world");
    RefusedIterations::read(*world, from, "", "a", 0).add({.first = 5, .last = 6});
    for (const std::string& load : {from, from + "/", from + "/global_step3"}) {
        CAPTURE(load);
        CHECK(RefusedIterations::read(*world, to, load, "b", 3).find(5) == nullptr);
        CHECK(RefusedIterations::read(*world, to, load, "a", 3).find(5) != nullptr);
        CHECK(RefusedIterations::read(*world, "", load, "a", 3).find(5) != nullptr);
        // A later start, with --load of its own directory.
        RefusedIterations later = RefusedIterations::read(*world, to, to, "a", 3);
        CHECK(later.find(6) != nullptr);
        later.add({.first = 8, .last = 8});
        CHECK(RefusedIterations::read(*world, from, "", "a", 0).find(8) == nullptr);
        io::remove_tree(to);
    }
}

TEST_CASE("a file of refused iterations with impossible ranges does not count") {
    const test::TempDir scratch;
    const std::string run = scratch.path();
    const auto world = comm::self("world");
    for (const auto& [first, last, in_a_row] :
         std::vector<std::array<i64, 3>>{{0, 9, 1}, {-3, 9, 1}, {9, 6, 1}, {5, 9, -1}}) {
        CAPTURE(first, last, in_a_row);
        RefusedIterations refused = RefusedIterations::read(*world, run, "", "a", 0);
        refused.add({.first = 5, .last = 5, .in_a_row = 1});
        refused.add({.first = first, .last = last, .in_a_row = in_a_row});
        const RefusedIterations restarted = RefusedIterations::read(*world, run, "", "a", 0);
        CHECK(restarted.find(5) == nullptr);  // with a warning
        CHECK(restarted.find(9) == nullptr);
    }
}

TEST_CASE("a run without --save remembers what it refuses, and writes nothing") {
    const auto world = comm::self("world");
    RefusedIterations refused = RefusedIterations::read(*world, "", "", "a", 0);
    refused.add({.first = 3, .last = 4});
    CHECK(refused.find(4) != nullptr);
}

TEST_CASE("refused iterations belong to the batches that the flags choose") {
    const std::string length = "--seq-length 16 ", iterations = "--train-iters 9 ";
    const std::string was = digest_with(length + iterations);
    CHECK(digest_with(length + iterations + "--lr 2e-3 --threads 2 --save elsewhere") == was);
    CHECK(digest_with(length + "--train-iters 10") == was);  // --data-order stateless
    CHECK(digest_with("--seq-length 8 " + iterations) != was);
    for (const char* more :
         {"--seed 5", "--split 500,490,10", "--data-order megatron", "--global-batch-size 2"}) {
        CAPTURE(more);
        CHECK(digest_with(length + iterations + more) != was);
    }
    for (const std::string order : {" --data-order megatron", " --data-order megatron-deepspeed"}) {
        const auto digest_of = [&](const std::string& more) {
            return digest_with(length + "--global-batch-size 2 " + more + order);
        };
        CHECK(digest_of("--train-iters 9") != digest_of("--train-iters 10"));
        CHECK(digest_of("--train-iters 9") == digest_of("--train-samples 18"));
        // The last sample fills no batch, but belongs to the order.
        CHECK(digest_of("--train-samples 18") != digest_of("--train-samples 19"));
    }
}
