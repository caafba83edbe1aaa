// SPDX-License-Identifier: Apache-2.0
// The flags that are compared between ranks: all but those of a table, which names options.
#include "train/start/compare_ranks.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cli/options.hpp"
#include "comm/threads/run_ranks.hpp"
#include "config/train_flags.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

std::vector<cli::Options::Setting> settings(const std::vector<std::string>& words) {
    cli::Options options("lm-train", "x");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    options.parse(words);
    return options.settings();
}

// Returns the error when one of two ranks has `words` and the other has `other`; empty: none.
std::string compare(const std::vector<std::string>& words,
                    const std::vector<std::string>& other = {}) {
    std::string message;
    comm::run_ranks(2, [&](comm::Group& world) {
        try {
            train::require_same_flags(world, settings(world.rank() == 0 ? other : words));
        } catch (const JointError& error) {
            if (world.rank() == 0) message = error.what();
        }
    });
    return message;
}

}  // namespace

TEST_CASE("a flag that differs between ranks is named, whatever its type") {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"--lr", "2e-3"},
                                               {"--seed", "7"},
                                               {"--bf16"},
                                               {"--no-node-check"},
                                               {"--save-interval", "3"},
                                               {"--hidden-size", "64"},
                                               {"--rampup-batch-size", "2", "2", "40"},
                                               {"--lr-decay-style", "cosine"},
                                               {"--split", "90,10,0"},
                                               {"--exit-interval", "4"},
                                               {"--local-save", "/tmp/x"},
                                               {"--kill-switch-path", "x"},
                                               {"--vocab-file", "v"},
                                               {"--deepspeed_config", "c.json"},
                                               {"--optimizer", "adam", "--model", "gpt2-124m"}}) {
        const std::string& flag = words[words.size() > 3 && words[2] == "--model" ? 2 : 0];
        CHECK_THAT(compare(words), HasInOrder(flag + ": ", "rank 1", "rank 0"));
        CHECK(compare(words, words).empty());
    }
    CHECK(compare({"--lr", "1e-3"}, {"--lr", "0.001"}).empty());  // another spelling
}

TEST_CASE("flags of a host or of rank 0 may differ") {
    CHECK(compare({"--threads", "2", "--log-file", "a", "--quiet"}, {"--log-json", "b"}).empty());
    CHECK(compare({"--local-save", "/n1", "--data-path", "a"},
                  {"--local-save", "/n2", "--data-path", "b"})
              .empty());
}

TEST_CASE("each row of the table of flags that may differ has an option and a reason") {
    const std::vector<cli::Options::Setting> all = settings({});
    for (const train::OwnOfRank& row : train::flags_of_ranks()) {
        INFO(row.flag);
        CHECK_FALSE(row.reason.empty());
        if (row.flag == "--explain") continue;  // declared by cmd/train
        CHECK(std::ranges::any_of(all, [&](const auto& one) { return one.name == row.flag; }));
    }
}
