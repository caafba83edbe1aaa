// SPDX-License-Identifier: Apache-2.0
#include "base/shape.hpp"

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace lm {

i64 checked_mul(i64 a, i64 b) {
    i64 product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        usage_error("size", "{} x {} does not fit in 64 bits: use smaller sizes", a, b);
    }
    return product;
}

Shape::Shape(std::initializer_list<i64> dims)
    : Shape(std::span<const i64>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const i64> dims) : rank_(static_cast<int>(dims.size())) {
    LM_CHECK(dims.size() <= max_rank, "expected a shape of at most {} dimensions, got {}", max_rank,
             dims.size());
    std::ranges::copy(dims, dims_.begin());
}

i64 Shape::numel() const {
    i64 product = 1;
    for (i64 dim : dims()) product = checked_mul(product, dim);
    return product;
}

std::string Shape::str() const {
    return fmt::format("[{}]", fmt::join(dims(), ", "));
}

}  // namespace lm
