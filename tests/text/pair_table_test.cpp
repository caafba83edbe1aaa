// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pair_table.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

TEST_CASE("PairTable finds exactly its keys") {
    std::mt19937 random(7);
    for (const size_t n : {0U, 1U, 2U, 100U, 819U, 820U, 5000U, 52'428U, 128'000U}) {
        std::vector<u64> keys;
        const auto id = [&] { return static_cast<i32>(random() % (n < 1000 ? 64 : 1U << 21)); };
        while (keys.size() < n) {
            keys.push_back(PairTable::key_of(id(), id()));
            if (keys.size() < n) continue;
            std::ranges::sort(keys);
            keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        }
        std::ranges::shuffle(keys, random);
        const PairTable table(keys);
        for (size_t rank = 0; rank < n; ++rank) CHECK(table.find(keys[rank]) == rank);
        const std::set<u64> known(keys.begin(), keys.end());
        for (int i = 0; i < 10'000; ++i) {
            const u64 key = PairTable::key_of(id(), id());
            if (!known.contains(key)) CHECK(table.find(key) == PairTable::no_rank);
        }
    }
    const u64 twice[] = {PairTable::key_of(1, 2), PairTable::key_of(1, 2)};
    CHECK_THROWS(PairTable(twice));
}

TEST_CASE("NarrowPairTable finds exactly its keys") {
    std::mt19937 random(8);
    for (const size_t n : {0U, 1U, 100U, 5000U, 50'000U}) {
        const u32 n_ids = n < 1000 ? 64 : 0xFFFF;
        const auto key = [&] {
            return NarrowPairTable::key_of(random() % n_ids, random() % n_ids);
        };
        std::set<u32> known;
        while (known.size() < n) known.insert(key());
        std::vector<u32> keys(known.begin(), known.end());
        std::ranges::shuffle(keys, random);
        const NarrowPairTable table(keys);
        REQUIRE(table.ok());
        for (u32 rank = 0; rank < n; ++rank) CHECK(table.probe(keys[rank]).rank_or_more() == rank);
        for (int i = 0; i < 100'000; ++i) {
            const u32 other =
                i % 2 == 0 || keys.empty() ? key() : keys[random() % n] ^ 1U << random() % 32;
            if (!known.contains(other))
                CHECK(table.probe(other).rank_or_more() >= NarrowPairTable::none);
        }
    }
}
