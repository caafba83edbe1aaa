// SPDX-License-Identifier: Apache-2.0
#include "config/rank_counts.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::config;
using lm::spec::BatchRamp;

namespace {

using Texts = std::vector<std::string>;

const BatchRamp tr1{16, 16, 5'000'000, 1024};
const BatchRamp tr11{192, 16, 9'765'625, 2048};

}  // namespace

TEST_CASE("replicas follow from the ranks") {
    CHECK(replicas_of(384, {.tp = 4, .pp = 12}).dp == 8);
    CHECK(replicas_of(384, {.tp = 4, .pp = 12}).world() == 384);
    CHECK_THROWS_WITH(
        replicas_of(100, {.tp = 2, .pp = 4}),
        HasInOrder("--world-size: 100 ranks ", "2 tensor x 4 pipeline ranks = 8: ", "96 or 104"));
    CHECK_THROWS_WITH(replicas_of(4, {.tp = 2, .pp = 4}), EndsWith(" 8"));
    CHECK_THROWS_AS(replicas_of(0, {.tp = 1, .pp = 1}), Error);
}

TEST_CASE("published trainings have whole batches") {
    CHECK(batch_problems(tr1, 1, replicas_of(128, {.tp = 2, .pp = 4})).empty());
    CHECK(batch_problems(tr11, 2, replicas_of(384, {.tp = 4, .pp = 12})).empty());
    CHECK(replicas_of(128, {.tp = 2, .pp = 4}).dp == 16);
    CHECK(replicas_of(512, {.tp = 2, .pp = 4}).dp == 64);
    CHECK(batch_problems(BatchRamp{.global_batch = 784}, 2, replicas_of(384, {.tp = 4, .pp = 12}))
              .empty());  // 49 micro-batches
    CHECK(batch_problems(BatchRamp{.global_batch = 288}, 1, replicas_of(16, {.tp = 4, .pp = 2}))
              .empty());
}

TEST_CASE("batch sizes that a resumed training has left behind are not checked") {
    const Ranks more{64, 8};
    CHECK(batch_problems(tr1, 1, more, 5'000'001).empty());
    CHECK_THAT(batch_problems(tr1, 1, more, 4'999'000).at(0), HasInOrder("1 of its 2 ", "(1008, "));
    CHECK_THAT(batch_problems(tr1, 1, more, 2'500'000).at(0),
               HasInOrder("of its 33 batch sizes (528"));
    CHECK(batch_problems(BatchRamp{2, 2, 24, 8}, 1, {8, 1}, 32).empty());
    CHECK(batch_problems(BatchRamp{2, 2, 24, 8}, 1, {8, 1}, 10).size() == 1);
    // The full batch is always checked.
    CHECK(batch_problems(BatchRamp{2, 2, 24, 8}, 1, {16, 1}, 32).size() == 1);
    const BatchRamp steps{
        .start = 4, .samples = 39, .global_batch = 16, .steps = {{0, 4}, {20, 8}, {40, 16}}};
    CHECK(batch_problems(steps, 1, {8, 1}, 20).empty());
    CHECK(batch_problems(steps, 1, {8, 1}, 16).size() == 1);
}

TEST_CASE("every batch of a ramp is checked beforehand, with the values that fit") {
    // 64 nodes of 4 GPUs.
    const Texts nodes64 = batch_problems(tr1, 1, replicas_of(256, {.tp = 2, .pp = 4}));
    REQUIRE(nodes64.size() == 1);
    CHECK_THAT(
        nodes64[0],
        HasInOrder("--rampup-batch-size: 32 of its 64 batch sizes (16, 48, 80, 112, 144, 176, "
                   "208, 240, ...",
                   "iteration 1 ", "iteration 23456) ",
                   "1 x 32 data-parallel ranks = 32: ", "16 data-parallel ranks (128 "));
    // 96 nodes: 1024 has no factor 3.
    const Texts nodes96 = batch_problems(tr1, 1, replicas_of(384, {.tp = 2, .pp = 4}));
    REQUIRE(nodes96.size() == 2);
    CHECK_THAT(nodes96[0], HasInOrder("--global-batch-size: 1024 ",
                                      "1 x 48 data-parallel ranks = 48: ", "1008 or 1056"));
    CHECK_THAT(nodes96[1], ContainsSubstring("42 of its 64 batch sizes"));
    const Texts micro4 = batch_problems(tr11, 4, replicas_of(384, {.tp = 4, .pp = 12}));
    REQUIRE(micro4.size() == 1);
    CHECK_THAT(micro4[0], HasInOrder("208, 240, 272", "iteration 440 ",
                                     " 4 data-parallel ranks (192 ", "--micro-batch-size 2"));
    CHECK_THAT(batch_problems(BatchRamp{7, 1, 100, 8}, 2, {1, 1}).at(0),
               HasInOrder("1 of its 2 batch sizes (7, ", "iteration 1 ", "iteration 15) ",
                          "2 x 1 data-parallel ranks = 2: ", "--micro-batch-size 1"));
}
