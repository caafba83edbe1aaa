// SPDX-License-Identifier: Apache-2.0
#include "train/resume/start_count.hpp"

#include <filesystem>
#include <sstream>

#include <unistd.h>
#include "cli/options.hpp"

#include "base/error.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("a start that still runs has not failed") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    const std::string file = fmt::format("{}/{}", run, start_count_file);
    for (int start = 0; start < 5; ++start) {
        count_start(run, 0, "a");
        // Another process of this host that exists: the parent.
        io::OrderedJson count = io::OrderedJson::parse(io::read_file(file));
        CHECK(count["starts"] == 1);
        count["process"] = ::getppid();
        io::write_file(file, count.dump(), io::Overwrite::yes);
    }
}

TEST_CASE("the third start in a row from one step is refused") {
    const test::TempDir scratch;
    const std::string run = scratch / "run";
    count_start(run, 0, "a");
    count_start(run, 0, "a");
    try {
        count_start(run, 0, "a");
        FAIL("the third start is not refused");
    } catch (const Error& error) {
        CHECK(error.code() == Exit::self_stopped);
        CHECK(std::string(error.what()).find("2 starts ") != std::string::npos);
    }
    count_start(run, 0, "b");    // other flags
    count_start(run, 100, "b");  // a new step
    count_start(run, 100, "b");
    CHECK_THROWS_AS(count_start(run, 100, "b"), Error);
    end_start_count(run);
    count_start(run, 100, "b");
}

TEST_CASE("a row of starts may have other threads, ranks, checks and spellings of its paths") {
    const auto digest_with = [](const std::string& more, i64 n_ranks = 1) {
        cli::Options options("lm-test", "a test");
        config::TrainFlags flags;
        config::add_train_options(options, flags);
        std::istringstream words(
            "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 "
            "--vocab-size 64 --mock-data --global-batch-size 4 --train-iters 9 --device cpu " +
            more);
        std::vector<std::string> arguments;
        for (std::string word; words >> word;) arguments.push_back(word);
        options.parse(arguments);
        return digest_for_count(resolve(flags, "lm-train " + more, {.n = n_ranks}));
    };
    const std::string micro = " --micro-batch-size 1", rate = " --lr 1e-3";
    const std::string threads = " --threads 1", paths = " --save s --load s";
    const std::string was = digest_with(micro + rate + threads + paths);
    CHECK(digest_with(micro + rate + " --threads 2" + paths) == was);
    CHECK(digest_with(micro + rate + threads + paths, 2) == was);
    CHECK(digest_with(" --micro-batch-size 2" + rate + threads + paths) == was);
    const std::string here = std::filesystem::current_path().string();
    for (const std::string& path : {std::string("./s"), std::string("s/"), here + "/s"}) {
        CHECK(digest_with(micro + rate + threads + " --save s --load " + path) == was);
    }
    for (const std::string more : {" --no-node-check", " --check-replicas 50",
                                   " --exit-duration-in-mins 5", " --log-interval 5"}) {
        CAPTURE(more);
        CHECK(digest_with(micro + rate + threads + paths + more) == was);
    }
    CHECK(digest_with(micro + " --lr 2e-3" + threads + paths) != was);
    CHECK(digest_with(micro + rate + threads + paths + " --seed 5") != was);
    CHECK(digest_with(micro + rate + threads + " --save s --load t") != was);
}
