// SPDX-License-Identifier: Apache-2.0
#include "plot/axis.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"

using namespace lm::plot;

namespace {

DataExtent extent_of(std::initializer_list<double> values) {
    DataExtent extent;
    for (const double value : values) extent.add(value);
    return extent;
}

std::vector<std::string> labels_of(const Axis& axis) {
    std::vector<std::string> labels;
    for (const Tick& tick : axis.ticks()) labels.push_back(tick.label);
    return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("an extent ignores values that are not finite") {
    CHECK(DataExtent().empty());
    CHECK(extent_of({NAN, std::numeric_limits<double>::infinity()}).empty());
    const DataExtent extent = extent_of({NAN, 3, -1, 2});
    CHECK(extent.low() == -1);
    CHECK(extent.high() == 3);
}

TEST_CASE("steps are 1, 2, 2.5 or 5 times a power of ten") {
    CHECK(round_step(10, 5) == Approx(2));
    CHECK(round_step(11, 5) == Approx(2.5));
    CHECK(round_step(13, 5) == Approx(5));
    CHECK(round_step(0.0009, 10) == Approx(0.0001));
    CHECK(round_step(51, 10) == Approx(10));
}

TEST_CASE("a linear axis ends at round numbers around the data") {
    const Axis axis = Axis::linear(extent_of({1.93, 2.46}), 100, 0, 5);
    CHECK(axis.low() == Approx(1.8));
    CHECK(axis.high() == Approx(2.6));
    CHECK(labels_of(axis) == Labels{"1.8", "2.0", "2.2", "2.4", "2.6"});
    CHECK(axis.at(1.8) == Approx(100));
    CHECK(axis.at(2.6) == Approx(0).margin(1e-9));
    CHECK(axis.at(2.2) == Approx(50));
}

TEST_CASE("labels of large and small values") {
    CHECK(labels_of(Axis::tight(extent_of({0, 90000}), 0, 1, 5)) ==
          Labels{"0", "20k", "40k", "60k", "80k"});
    CHECK(labels_of(Axis::tight(extent_of({0, 3.5e11}), 0, 1, 4)) ==
          Labels{"0", "100B", "200B", "300B"});
    CHECK(labels_of(Axis::tight(extent_of({0, 5000}), 0, 1, 2)) == Labels{"0", "2500", "5000"});
    CHECK(labels_of(Axis::tight(extent_of({0, 1e9}), 0, 1, 4)) ==
          Labels{"0", "0.25B", "0.50B", "0.75B", "1.00B"});
    const Axis small = Axis::tight(extent_of({0, 6e-5}), 0, 1, 3);
    CHECK(labels_of(small) == Labels{"0", "2", "4", "6"});
    CHECK(small.exponent() == -5);
    CHECK(power_of_ten(small.exponent()) == " (×10⁻⁵)");
    CHECK(power_of_ten(0).empty());
}

TEST_CASE("an axis of no value, of one value and of zero") {
    CHECK(labels_of(Axis::linear(DataExtent(), 0, 1, 2)) == Labels{"0", "0.5", "1.0"});
    const Axis one = Axis::linear(extent_of({4}), 0, 1, 4);
    CHECK(one.low() < 4);
    CHECK(one.high() > 4);
    const Axis zero = Axis::linear(extent_of({0}), 0, 1, 4);
    CHECK(zero.low() < 0);
    CHECK(zero.high() > 0);
}

TEST_CASE("a logarithmic axis has powers of ten, or also 2 and 5 times these") {
    CHECK(labels_of(Axis::logarithmic(extent_of({0.03, 500}), 0, 1, 5)) ==
          Labels{"0.1", "1", "10", "100"});
    CHECK(labels_of(Axis::logarithmic(extent_of({0.15, 6}), 0, 1, 5)) ==
          Labels{"0.2", "0.5", "1", "2", "5"});
    CHECK(labels_of(Axis::logarithmic(extent_of({1, 1e12}), 0, 1, 4)).size() <= 5);
    const Axis axis = Axis::logarithmic(extent_of({1, 100}), 0, 10, 5);
    CHECK(axis.at(10) == Approx(5));
}
