// SPDX-License-Identifier: Apache-2.0
// The ranges of --split, with the rounding of Megatron-DeepSpeed and that of Megatron-LM.
#include "data/sampling/split.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::data::parse_split;
using lm::data::split_ranges;
using lm::data::SplitRounding;

namespace {

std::vector<i64> bounds(const char* text, i64 n, SplitRounding rounding) {
    const auto ranges = split_ranges(parse_split(text), n, rounding);
    REQUIRE(ranges[0].end == ranges[1].begin);
    REQUIRE(ranges[1].end == ranges[2].begin);
    return {ranges[0].begin, ranges[0].end, ranges[1].end, ranges[2].end};
}
using Bounds = std::vector<i64>;

}  // namespace

TEST_CASE("split, Megatron-DeepSpeed's rounding") {
    const auto old = SplitRounding::bigscience;
    CHECK(bounds("949,50,1", 304230423, old) == Bounds{0, 288714672, 303926193, 304230423});
    CHECK(bounds("949,50,1", 10000, old) == Bounds{0, 9490, 9990, 10000});
    CHECK(bounds("98,2,0", 79000, old) == Bounds{0, 77420, 79000, 79000});
    CHECK(bounds("100,0,0", 79000, old) == Bounds{0, 79000, 79000, 79000});
    CHECK(bounds("969, 30, 1", 49, old) == Bounds{0, 48, 49, 49});
}

TEST_CASE("split, Megatron-LM's rounding") {
    const auto nvidia = SplitRounding::nvidia;
    CHECK(bounds("969, 30, 1", 49, nvidia) == Bounds{0, 47, 49, 49});
    CHECK(bounds("949,50,1", 10000, nvidia) == Bounds{0, 9490, 9990, 10000});
    CHECK(bounds("100", 79000, nvidia) == Bounds{0, 79000, 79000, 79000});
    CHECK(bounds("9/1", 10, nvidia) == Bounds{0, 9, 10, 10});
    for (const char* text : {"'9,1,0'", "\"9,1,0\"", "[9, 1, 0]", " ( 9,1 ,0 ) ", "'9','1','0'"})
        CHECK(bounds(text, 10, nvidia) == Bounds{0, 9, 10, 10});
    CHECK_THROWS_AS(parse_split("''"), lm::Error);
    CHECK_THROWS_AS(parse_split("9,'',1"), lm::Error);
}

TEST_CASE("the two roundings differ for 729 of the first 2999 sizes of 969,30,1") {
    const auto split = parse_split("969,30,1");
    int differ = 0;
    for (i64 n = 1; n < 3000; ++n) {
        const auto a = split_ranges(split, n, SplitRounding::nvidia);
        const auto b = split_ranges(split, n, SplitRounding::bigscience);
        for (size_t k = 0; k < 3; ++k) {
            if (a[k].begin != b[k].begin || a[k].end != b[k].end) {
                ++differ;
                break;
            }
        }
    }
    CHECK(differ == 729);
}

TEST_CASE("malformed splits are refused") {
    CHECK_THROWS_AS(parse_split("1,2,3,4"), lm::Error);
    CHECK_THROWS_AS(parse_split("a,b"), lm::Error);
    CHECK_THROWS_AS(parse_split(""), lm::Error);
    CHECK_THROWS_AS(parse_split("0,0,0"), lm::Error);
    CHECK_THROWS_AS(parse_split("-1,2"), lm::Error);
}
