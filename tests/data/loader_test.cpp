// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/loader.hpp"

#include <thread>

#include "base/error.hpp"
#include "counting_source.hpp"
#include "data/sampling/window_source.hpp"
#include "small_dataset.hpp"
#include "support/catch.hpp"

using lm::i32;
using lm::i64;
using lm::data::Batch;
using lm::data::BatchOptions;
using lm::data::Counting;
using lm::data::Loader;
using lm::data::SampleSource;

namespace {

// Reads one micro-batch from each of dp_size loaders in turn, until all samples [from, to) are
// read. Returns the sample numbers in the order of reading.
std::vector<i64> run(const SampleSource& source, i64 from, i64 to, i64 micro_batch, i64 dp_size,
                     int n_ahead) {
    BatchOptions options;
    options.micro_batch = micro_batch;
    std::vector<std::unique_ptr<Loader>> ranks;
    for (i64 r = 0; r < dp_size; ++r) {
        ranks.push_back(std::make_unique<Loader>(source, options, from, dp_size, r, n_ahead));
    }
    std::vector<i64> seen;
    while (ranks.front()->position() < to) {
        for (auto& rank : ranks) {
            const Batch& batch = rank->next();
            for (i64 row = 0; row < micro_batch; ++row) {
                const i64 id = batch.sample_ids[static_cast<size_t>(row)];
                seen.push_back(id);
                const size_t at = static_cast<size_t>(row * batch.seq_length);
                REQUIRE(batch.tokens[at] == id * 100);
                REQUIRE(batch.targets[at] == id * 100 + 1);
                REQUIRE(batch.targets[at + 2] == id * 100 + 3);
            }
        }
    }
    return seen;
}

}  // namespace

TEST_CASE("any micro-batch size, rank count and number of batches ahead gives the same samples") {
    const Counting source(3, lm::data::endless);
    std::vector<i64> expected(48);
    for (size_t k = 0; k < expected.size(); ++k) expected[k] = 7 + static_cast<i64>(k);
    for (const i64 micro_batch : {1, 2, 4}) {
        for (const i64 dp_size : {1, 2, 3}) {
            for (const int n_ahead : {0, 1, 2, 5}) {
                CHECK(run(source, 7, 55, micro_batch, dp_size, n_ahead) == expected);
            }
        }
    }
}

TEST_CASE("a loader that starts at any sample returns the same samples as the run") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", {500, 300, 200});
    const lm::data::WindowSource source(lm::test::whole(dir / "p", 60000), 16, 3, "p");
    BatchOptions options;
    std::vector<std::vector<i32>> straight;
    Loader loader(source, options, 0);
    for (int k = 0; k < 200; ++k) straight.push_back(loader.next().tokens);
    for (const i64 at : {0, 1, 61, 62, 63, 199}) {
        Loader resumed(source, options, at);
        CHECK(resumed.next().tokens == straight[static_cast<size_t>(at)]);
    }
}

TEST_CASE("seek goes forward and back, whatever was filled ahead") {
    const Counting source(3, lm::data::endless);
    BatchOptions options;
    for (const int n_ahead : {0, 1, 4}) {
        Loader loader(source, options, 0, 1, 0, n_ahead);
        for (int k = 0; k < 100; ++k) {
            const i64 to = k * 37 % 101;
            loader.seek(to);
            CHECK(loader.position() == to);
            for (i64 step = 0; step < k % 4; ++step) {
                REQUIRE(loader.next().sample_ids[0] == to + step);
            }
        }
    }
}

TEST_CASE("an error is thrown at its batch, every time") {
    Counting source(3, 10);
    source.broken = 4;
    BatchOptions options;
    options.micro_batch = 2;
    Loader loader(source, options, 0);
    CHECK(loader.next().sample_ids[1] == 1);
    CHECK(loader.next().sample_ids[1] == 3);
    CHECK_THROWS_WITH(loader.next(), "broken sample");
    CHECK_THROWS_WITH(loader.next(), "broken sample");
    CHECK(loader.position() == 4);
    loader.seek(8);
    CHECK(loader.next().sample_ids[1] == 9);
    CHECK_THROWS_WITH(loader.next(), ContainsSubstring("sample 10 "));
}

TEST_CASE("a loader can be destroyed at any time") {
    const Counting source(64, lm::data::endless);
    for (int k = 0; k < 50; ++k) {
        Loader loader(source, BatchOptions{}, 0, 1, 0, 3);
        for (int step = 0; step < k % 5; ++step) loader.next();
    }
}

TEST_CASE("large micro-batches are read ahead in little memory") {
    const Counting source(1 << 20, lm::data::endless);
    BatchOptions options;
    options.micro_batch = 2;
    CHECK(Batch(1 << 20, options).n_bytes() == 2 * (2 * (4 << 20) + 8));
    Loader loader(source, options, 0);
    for (int k = 0; k < 5; ++k) loader.next();
    CHECK(source.n_filled >= 5 * 2);
    CHECK(source.n_filled <= (5 + 2) * 2);
}

TEST_CASE("a loader refuses options without the id of the end-of-document token") {
    const Counting source(4, lm::data::endless);
    BatchOptions options;
    options.reset_position_ids = true;
    CHECK_THROWS_WITH(Loader(source, options, 0), ContainsSubstring("--reset-position-ids"));
}
