// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/window_source.hpp"

#include <set>

#include "base/error.hpp"
#include "small_dataset.hpp"
#include "support/catch.hpp"

using lm::i32;
using lm::i64;
using lm::data::WindowSource;
using lm::test::sample;

namespace {

std::vector<i64> many_lengths(i64 total) {
    std::vector<i64> lengths;
    for (i64 k = 0; total > 0; ++k) {
        lengths.push_back(std::min<i64>(total, k % 5 == 3 ? 0 : 1 + k * 7 % 23));
        total -= lengths.back();
    }
    return lengths;
}

}  // namespace

TEST_CASE("an epoch has each window once, and adjacent windows share one token") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", many_lengths(1000));
    for (const i64 seq : {1, 2, 7, 37, 333, 999}) {
        const WindowSource source(lm::test::whole(dir / "p", 60000), seq, 11, "p");
        const i64 n = source.epoch_samples();
        CHECK(n == 999 / seq);
        for (i64 epoch = 0; epoch < 3; ++epoch) {
            std::set<i64> targets;
            for (i64 k = 0; k < n; ++k) {
                const auto tokens = sample(source, epoch * n + k);
                for (size_t t = 1; t < tokens.size(); ++t) {
                    REQUIRE(tokens[t] == tokens[t - 1] + 1);
                    REQUIRE(targets.insert(tokens[t]).second);
                }
            }
            // The targets are contiguous: the omitted tokens, fewer than one window, are at the
            // ends.
            CHECK(*targets.rbegin() - *targets.begin() + 1 == n * seq);
        }
    }
}

TEST_CASE("over the epochs every token but the first is a target") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", many_lengths(26));
    const WindowSource source(lm::test::whole(dir / "p", 60000), 10, 5, "p");
    std::set<i64> targets;
    for (i64 k = 0; k < 100 * source.epoch_samples(); ++k) {
        const auto tokens = sample(source, k);
        targets.insert(tokens.begin() + 1, tokens.end());
    }
    CHECK(targets.size() == 25);
}

TEST_CASE("epochs, keys and samples differ; the same call gives the same sample") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", many_lengths(5000));
    const WindowSource a(lm::test::whole(dir / "p", 60000), 8, 1, "p");
    const WindowSource b(lm::test::whole(dir / "p", 60000), 8, 2, "p");
    const i64 n = a.epoch_samples();
    int same_epoch = 0;
    int same_key = 0;
    for (i64 k = 0; k < n; ++k) {
        same_epoch += sample(a, k) == sample(a, n + k);
        same_key += sample(a, k) == sample(b, k);
        REQUIRE(sample(a, k) == sample(a, k));
    }
    CHECK(same_epoch < 10);
    CHECK(same_key < 10);
}

TEST_CASE("spans have the documents of a sample, without empty ones") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", {5, 3, 0, 7, 1, 4});
    const WindowSource source(lm::test::whole(dir / "p", 60000), 9, 0, "p");
    const std::vector<i64> starts = {0, 5, 8, 8, 15, 16};
    for (i64 k = 0; k < 10; ++k) {
        std::vector<i32> rebuilt;
        for (const auto& span : source.spans(k)) {
            CHECK(span.count > 0);
            for (i64 t = 0; t < span.count; ++t) {
                rebuilt.push_back(
                    static_cast<i32>(starts[static_cast<size_t>(span.sequence)] + span.offset + t));
            }
        }
        CHECK(rebuilt == sample(source, k));
    }
}

TEST_CASE("a range uses its own documents only") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", {50, 30, 20});
    auto range = lm::test::whole(dir / "p", 60000);
    range.sequences = {1, 2};
    const WindowSource source(range, 4, 0, "p");
    for (i64 k = 0; k < 50; ++k) {
        for (const i32 id : sample(source, k)) {
            REQUIRE(id >= 50);
            REQUIRE(id < 80);
        }
    }
}

TEST_CASE("too few tokens and ids outside the vocabulary are errors") {
    const lm::test::TempDir dir;
    lm::test::write_counting(dir / "p", {5, 3});
    CHECK_THROWS_WITH(WindowSource(lm::test::whole(dir / "p", 100), 8, 0, "the train split of p"),
                      HasInOrder("--seq-length: ", "train split of p ", "8 tokens", "9"));
    CHECK_NOTHROW(WindowSource(lm::test::whole(dir / "p", 100), 7, 0, "p"));
    const WindowSource source(lm::test::whole(dir / "p", 6), 7, 0, "p");
    CHECK_THROWS_WITH(sample(source, 0), HasInOrder("document 1 ", " 6 ", "token 1", "6"));
}
