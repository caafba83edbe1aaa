// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/loader.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "base/error.hpp"
#include "data/sampling/window_source.hpp"
#include "small_dataset.hpp"

using lm::i32;
using lm::i64;
using lm::data::Batch;
using lm::data::BatchOptions;
using lm::data::Loader;
using lm::data::SampleSource;

namespace {

// Sample k is k*100, k*100 + 1, ...
class Counting final : public SampleSource {
  public:
    Counting(i64 seq_length, i64 size) : SampleSource(seq_length), size_(size) {}
    i64 size() const override { return size_; }
    void fill(i64 sample, std::span<i32> tokens) const override {
        if (sample == broken) throw lm::Error(lm::Exit::failure, "broken sample");
        for (size_t t = 0; t < tokens.size(); ++t) {
            tokens[t] = static_cast<i32>(sample * 100 + static_cast<i64>(t));
        }
    }
    std::vector<lm::data::TokenSpan> spans(i64) const override { return {}; }
    std::vector<lm::data::DatasetUse> use(i64) const override { return {}; }
    i64 broken = -1;

  private:
    i64 size_;
};

// The samples of the whole run as all ranks together see them.
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

TEST_CASE("a loader that starts at any sample continues as the run would have") {
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
    CHECK_THROWS_WITH(loader.next(), Catch::Contains("sample 10 is beyond"));
}

TEST_CASE("a loader can be destroyed at any time") {
    const Counting source(64, lm::data::endless);
    for (int k = 0; k < 50; ++k) {
        Loader loader(source, BatchOptions{}, 0, 1, 0, 3);
        for (int step = 0; step < k % 5; ++step) loader.next();
    }
}

TEST_CASE("a truncated batch has the first tokens and targets of each row") {
    const Counting source(6, lm::data::endless);
    BatchOptions options;
    options.micro_batch = 2;
    options.eod_id = 102;
    options.reset_position_ids = options.reset_attention_mask = options.eod_mask_loss = true;
    Loader loader(source, options, 0);
    const Batch& full = loader.next();
    Batch batch;
    for (const i64 length : {2, 6, 4}) {
        lm::data::truncate(full, length, batch);
        CHECK(batch.seq_length == length);
        CHECK(batch.sample_ids == std::vector<i64>{0, 1});
    }
    CHECK(batch.tokens == std::vector<i32>{0, 1, 2, 3, 100, 101, 102, 103});
    CHECK(batch.targets == std::vector<i32>{1, 2, 3, 4, 101, 102, 103, 104});
    CHECK(batch.positions == std::vector<i32>{0, 1, 2, 3, 0, 1, 2, 0});
    CHECK(batch.document_starts == std::vector<i32>{0, 0, 0, 0, 0, 0, 0, 3});
    CHECK(batch.loss_mask == std::vector<float>{1, 1, 1, 1, 1, 1, 0, 1});
}

TEST_CASE("positions and document starts restart after each eod") {
    const std::vector<i32> tokens = {5, 9, 9, 6, 7, 9, 8};
    std::vector<i32> positions(7), starts(7);
    std::vector<float> mask(7);
    lm::data::mark_documents(tokens, 9, positions, starts, mask);
    CHECK(positions == std::vector<i32>{0, 1, 0, 0, 1, 2, 0});
    CHECK(starts == std::vector<i32>{0, 0, 2, 3, 3, 3, 6});
    CHECK(mask == std::vector<float>{1, 0, 0, 1, 1, 0, 1});
}

TEST_CASE("a batch has only the fields of its options") {
    const Counting source(4, lm::data::endless);
    BatchOptions options;
    options.micro_batch = 2;
    CHECK(Loader(source, options, 0).next().positions.empty());
    options.reset_position_ids = options.reset_attention_mask = options.eod_mask_loss = true;
    CHECK_THROWS_WITH(Loader(source, options, 0), Catch::Contains("--reset-position-ids"));
    options.eod_id = 101;
    Loader loader(source, options, 0);
    const Batch& batch = loader.next();
    CHECK(batch.positions == std::vector<i32>{0, 1, 2, 3, 0, 1, 0, 1});
    CHECK(batch.document_starts == std::vector<i32>{0, 0, 0, 0, 0, 0, 2, 2});
    CHECK(batch.loss_mask == std::vector<float>{1, 1, 1, 1, 1, 0, 1, 1});
}
