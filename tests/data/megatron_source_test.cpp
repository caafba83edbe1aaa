// SPDX-License-Identifier: Apache-2.0
// Golden values of the indices, computed by numpy and Megatron. tests/live/megatron_order.py
// compares with megatron-core itself.
#include "data/sampling/megatron_source.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "small_dataset.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::data;
using lm::test::sample;
using lm::test::TempDir;
using lm::test::write_counting;

namespace {

std::unique_ptr<MegatronSource> source(const std::string& prefix, const std::vector<i64>& lengths,
                                       i64 seq, i64 n, double threshold = nvidia_last_epoch) {
    write_counting(prefix, lengths);
    return MegatronSource::create(lm::test::whole(prefix, 60000), seq, n, 1234, threshold, "p");
}

using Order = std::vector<i64>;
using Documents = std::vector<i32>;

template <typename T>
std::vector<T> list(std::span<const T> values) {
    return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("shuffles equal numpy's") {
    NumpyRandom random(1234);
    std::vector<int> ten(10), eight(8);
    std::iota(ten.begin(), ten.end(), 0);
    std::iota(eight.begin(), eight.end(), 0);
    random.shuffle(std::span(ten));
    random.shuffle(std::span(eight));
    CHECK(ten == std::vector<int>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3});
    CHECK(eight == std::vector<int>{7, 5, 6, 0, 4, 3, 2, 1});
}

TEST_CASE("the index equals Megatron's: two epochs shuffled together, an empty document") {
    const TempDir dir;
    const auto s_source = source(dir / "p", {5, 3, 0, 7, 1, 4}, 4, 7);
    const MegatronSource& s = *s_source;
    CHECK(s.plan().n_epochs == 2);
    CHECK_FALSE(s.plan().separate_last);
    CHECK(list(s.index().documents) == Documents{1, 2, 5, 2, 3, 4, 1, 0, 4, 5, 0, 3});
    CHECK(list(s.index().position) == Order{0, 2, 4, 4, 6, 7, 9, 10, 10, 11});
    CHECK(list(s.index().offset) == Documents{0, 1, 1, 5, 1, 2, 0, 0, 4, 3});
    CHECK(list(s.index().order) == Order{7, 3, 5, 1, 4, 8, 0, 2, 6});
    CHECK(s.size() == 9);
    // sample 0 is window 7: document 0 whole
    CHECK(sample(s, 0) == std::vector<i32>{0, 1, 2, 3, 4});
    // sample 3 is window 1: from (5, offset 1) to (3, offset 1): 17 18 19 | 8 9
    CHECK(sample(s, 3) == std::vector<i32>{17, 18, 19, 8, 9});
}

TEST_CASE("the index equals Megatron's: the last epoch shuffled separately") {
    const TempDir dir;
    const std::vector<i64> lengths = {9, 4, 6, 11, 3, 8, 5, 10};
    const Documents apart = {2, 1, 6, 0, 4, 5, 3, 7, 5, 0, 3, 4, 2, 6, 1, 7};
    const Order order_apart = {7,  11, 2,  3,  1,  9,  5,  4,  0,  8,  6,  10, 12, 20,
                               23, 17, 14, 25, 21, 16, 22, 19, 26, 18, 24, 13, 15};
    for (const double threshold : {nvidia_last_epoch, bigscience_last_epoch}) {
        const auto s_source = source(dir / "p", lengths, 4, 14, threshold);
        const MegatronSource& s = *s_source;
        CHECK(s.plan().n_epochs == 2);
        CHECK(s.plan().separate_last);
        CHECK(s.plan().samples_before_last == 13);
        CHECK(s.size() == 27);
        CHECK(list(s.index().documents) == apart);
        CHECK(list(s.index().order) == order_apart);
        CHECK(s.index().position.back() == 15);
        CHECK(s.index().offset.back() == 6);
    }
}

TEST_CASE("the two thresholds for a separate last epoch") {
    const TempDir dir;
    const std::vector<i64> lengths = {9, 4, 6, 11, 3, 8, 5, 10};
    const auto nvidia_source = source(dir / "p", lengths, 4, 23, nvidia_last_epoch);
    const MegatronSource& nvidia = *nvidia_source;
    CHECK_FALSE(nvidia.plan().separate_last);
    CHECK(list(nvidia.index().documents) ==
          Documents{5, 3, 0, 4, 6, 2, 2, 7, 1, 1, 0, 4, 5, 6, 3, 7});
    CHECK(list(nvidia.index().order) == Order{8, 19, 13, 1,  4,  17, 14, 11, 20, 0,  7,  3,  10, 6,
                                              2, 25, 12, 21, 18, 15, 9,  23, 5,  16, 24, 22, 26});
    const auto bigscience_source = source(dir / "p", lengths, 4, 23, bigscience_last_epoch);
    const MegatronSource& bigscience = *bigscience_source;
    CHECK(bigscience.plan().separate_last);
    CHECK(list(bigscience.index().documents) ==
          Documents{2, 1, 6, 0, 4, 5, 3, 7, 5, 0, 3, 4, 2, 6, 1, 7});
}

TEST_CASE("the index equals Megatron's: three epochs") {
    const TempDir dir;
    // 16 tokens in five documents
    const auto plan = plan_epochs(16, 4, 9, nvidia_last_epoch);
    CHECK(plan.n_epochs == 3);
    CHECK_FALSE(plan.separate_last);
    const auto s_source = source(dir / "p", {4, 3, 2, 5, 2}, 4, 9);
    const MegatronSource& s = *s_source;
    CHECK(list(s.index().documents) == Documents{3, 1, 0, 2, 4, 2, 0, 2, 1, 4, 3, 4, 0, 1, 3});
    CHECK(list(s.index().order) == Order{3, 9, 2, 1, 7, 5, 4, 0, 8, 6, 10});
}

TEST_CASE("one epoch has as many samples as fit") {
    CHECK(plan_epochs(101, 10, 10, 0.8).n_epochs == 1);
    CHECK(plan_epochs(100, 10, 10, 0.8).n_epochs == 2);
    CHECK(plan_epochs(100, 10, 0, 0.8).n_epochs == 1);
    CHECK(plan_epochs(100, 10, 0, 0.8).n_samples == 9);
}

TEST_CASE("a sample is seq + 1 consecutive tokens of the shuffled documents") {
    const TempDir dir;
    const auto s_source = source(dir / "p", {3, 50, 0, 0, 1, 1, 17, 4, 90}, 12, 40);
    const MegatronSource& s = *s_source;
    CHECK(s.size() >= 40);
    for (i64 k = 0; k < s.size(); ++k) {
        i64 count = 0;
        for (const auto& span : s.spans(k)) {
            CHECK(span.count > 0);
            count += span.count;
        }
        CHECK(count == 13);
        CHECK(sample(s, k).size() == 13);
    }
}

TEST_CASE("limits of Megatron's order are errors") {
    const TempDir dir;
    write_counting(dir / "p", {10});
    CHECK_THROWS_WITH(MegatronSource::create(lm::test::whole(dir / "p", 100), 10, 1, 1, 0.8, "p"),
                      HasInOrder("--seq-length: p ", "10 tokens"));
    CHECK_THROWS_WITH(
        MegatronSource::create(lm::test::whole(dir / "p", 100), 9, 1, u64{1} << 32, 0.8, "p"),
        ContainsSubstring("--seed"));
}

namespace {

// Computes the windows as build_sample_idx in Megatron's helpers.cpp does.
void walk(const std::vector<i64>& lengths, std::span<const i32> documents, i64 seq, i64 n_samples,
          Order& position, Documents& offset) {
    i64 d = 0;
    i64 o = 0;
    position = {0};
    offset = {0};
    for (i64 k = 0; k < n_samples; ++k) {
        i64 left = seq + 1;
        while (true) {
            const i64 available =
                lengths[static_cast<size_t>(documents[static_cast<size_t>(d)])] - o;
            left -= available;
            if (left <= 0) {
                o += left + available - 1;
                break;
            }
            ++d;
            o = 0;
        }
        position.push_back(d);
        offset.push_back(static_cast<i32>(o));
    }
}

bool equal(const MegatronIndex& a, const MegatronIndex& b) {
    return list(a.documents) == list(b.documents) && list(a.position) == list(b.position) &&
           list(a.offset) == list(b.offset) && list(a.order) == list(b.order);
}

// Returns the lengths of more documents than one task of a thread processes. Many documents are
// empty.
std::vector<i64> many_lengths() {
    std::mt19937 random(3);
    std::vector<i64> lengths(150'000);
    for (i64& length : lengths) length = random() % 3 == 0 ? 0 : static_cast<i64>(random() % 40);
    return lengths;
}

}  // namespace

TEST_CASE("any number of threads finds the windows that Megatron's walk finds") {
    const TempDir dir;
    const std::vector<i64> lengths = many_lengths();
    const auto one_source = source(dir / "p", lengths, 7, 400'000);
    const MegatronSource& one = *one_source;
    Order position;
    Documents offset;
    walk(lengths, one.index().documents, 7, one.size(), position, offset);
    CHECK(list(one.index().position) == position);
    CHECK(list(one.index().offset) == offset);
    const TokenRange range = lm::test::whole(dir / "p", 60000);
    for (const int threads : {2, 3}) {
        CHECK(equal(MegatronIndex::build(range, 7, one.plan(), 1234, threads), one.index()));
    }
    // Empty documents in front: the first sample still begins with the first document.
    const auto empty_source = source(dir / "e", {0, 0, 0, 0, 0, 30}, 4, 5);
    const MegatronSource& empty = *empty_source;
    CHECK(empty.index().position[0] == 0);
}

TEST_CASE("an index is built once and mapped afterwards") {
    const TempDir dir;
    const std::vector<i64> lengths = many_lengths();
    write_counting(dir / "p", lengths);
    const TokenRange range = lm::test::whole(dir / "p", 60000);
    const EpochPlan plan = plan_epochs(range.n_tokens(), 7, 400'000, nvidia_last_epoch);
    const MegatronIndex own = MegatronIndex::build(range, 7, plan, 1234);
    const IndexCache cache{dir / "cache"};
    std::vector<std::string> messages;
    set_log_sink([&](Severity, std::string_view text) { messages.emplace_back(text); });
    const auto get = [&](u32 seed) { return shared_index(cache, range, 7, plan, seed, 2); };
    CHECK(equal(get(1234), own));
    CHECK(messages.size() == 1);  // the note that the index was built
    CHECK(equal(get(1234), own));
    CHECK(messages.size() == 1);
    CHECK(io::list_directory(dir / "cache").size() == 1);
    CHECK_FALSE(equal(get(1235), own));
    CHECK(io::list_directory(dir / "cache").size() == 2);

    // Other lengths need another index.
    std::vector<i64> others = lengths;
    std::ranges::reverse(others);
    write_counting(dir / "q", others);
    const TokenRange other = lm::test::whole(dir / "q", 60000);
    CHECK_FALSE(equal(shared_index(cache, other, 7, plan, 1234, 1), own));
    CHECK(io::list_directory(dir / "cache").size() == 3);

    // A small index gets no file. A file that is not an index is reported and not used. Where the
    // directory cannot be created, the index is only in memory.
    shared_index({dir / "small", i64{1} << 40}, range, 7, plan, 1234, 1);
    CHECK_FALSE(io::exists(dir / "small"));
    messages.clear();
    const std::string first = dir / ("cache/" + io::list_directory(dir / "cache")[0]);
    io::write_file(first, "x", io::Overwrite::yes);
    for (const u32 seed : {1234U, 1235U}) get(seed);
    shared_index(cache, other, 7, plan, 1234, 1);
    REQUIRE(messages.size() == 1);
    CHECK_THAT(messages[0], ContainsSubstring("other samples"));
    CHECK(equal(shared_index({dir / "p.bin"}, range, 7, plan, 1234, 1), own));
    set_log_sink({});
}

TEST_CASE("of several threads that need an index at the same time one builds it") {
    const TempDir dir;
    write_counting(dir / "p", many_lengths());
    const TokenRange range = lm::test::whole(dir / "p", 60000);
    const EpochPlan plan = plan_epochs(range.n_tokens(), 7, 400'000, nvidia_last_epoch);
    const MegatronIndex own = MegatronIndex::build(range, 7, plan, 1);
    std::atomic<int> made{0};
    set_log_sink([&](Severity, std::string_view) { ++made; });
    std::array<MegatronIndex, 4> got;
    {
        std::vector<std::jthread> threads;
        for (MegatronIndex& mine : got) {
            threads.emplace_back(
                [&] { mine = shared_index({dir / "cache"}, range, 7, plan, 1, 1); });
        }
    }
    set_log_sink({});
    CHECK(made == 1);
    for (const MegatronIndex& mine : got) CHECK(equal(mine, own));
    CHECK(io::list_directory(dir / "cache").size() == 1);
}
