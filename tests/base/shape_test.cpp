// SPDX-License-Identifier: Apache-2.0
#include "base/shape.hpp"

#include <limits>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("products are checked for overflow") {
    CHECK(checked_mul(3, 4) == 12);
    CHECK(checked_mul(0, std::numeric_limits<i64>::max()) == 0);
    CHECK(caught([] { checked_mul(i64{1} << 32, i64{1} << 31); }).code == Exit::usage);
    CHECK(ceil_div(0, 4) == 0);
    CHECK(ceil_div(5, 4) == 2);
    CHECK(round_up(8, 4) == 8);
    CHECK(round_up(9, 4) == 12);
}

TEST_CASE("a shape has a rank, a number of elements and a text") {
    const Shape shape = {50257, 768};
    CHECK(shape.rank() == 2);
    CHECK(shape.numel() == 50257 * 768);
    CHECK(shape.str() == "[50257, 768]");
    CHECK(shape == Shape{50257, 768});
    CHECK_FALSE(shape == Shape{50257, 768, 1});
    CHECK(Shape{}.numel() == 1);
    CHECK(caught([] { Shape{i64{1} << 40, i64{1} << 40}.numel(); }).threw);
    CHECK(caught([] { Shape{1, 2, 3, 4, 5}; }).code == Exit::bug);
}
