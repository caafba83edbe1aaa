// SPDX-License-Identifier: Apache-2.0
#include "io/ordered_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

void store(i64 i, io::AlignedBlock& block) {
    std::memcpy(block.first(sizeof i).data(), &i, sizeof i);
}

i64 stored(const io::AlignedBlock& block) {
    i64 i = -1;
    std::memcpy(&i, block.first(sizeof i).data(), sizeof i);
    return i;
}

}  // namespace

TEST_CASE("blocks are consumed in order, whatever the number of threads") {
    for (const int n_threads : {1, 2, 4}) {
        for (const i64 n : {0, 1, 2, 9, 100}) {
            std::vector<i64> got;
            io::for_each_block_in_order(n, n_threads, store, [&](i64 i, io::AlignedBlock& block) {
                CHECK(stored(block) == i);
                got.push_back(i);
            });
            CHECK(std::ssize(got) == n);
            CHECK(std::ranges::is_sorted(got));
        }
    }
}

TEST_CASE("the first error of a block ends all calls") {
    for (const i64 bad : {0, 3, 29}) {
        const auto fail_at = [&](i64 i, io::AlignedBlock& block) {
            if (i == bad) run_error("block", "{} is bad", i);
            store(i, block);
        };
        std::vector<i64> got;
        const auto collect = [&](i64 i, io::AlignedBlock&) { got.push_back(i); };
        CHECK_THROWS_WITH(io::for_each_block_in_order(30, 3, fail_at, collect),
                          ContainsSubstring(fmt::format("{} is bad", bad)));
        CHECK(std::ssize(got) <= bad);
        CHECK_THROWS_WITH(io::for_each_block_in_order(30, 3, store, fail_at),
                          ContainsSubstring(fmt::format("{} is bad", bad)));
    }
}
