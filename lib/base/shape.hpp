// SPDX-License-Identifier: Apache-2.0
// The dimensions of a tensor: up to four, row-major. Products are checked for overflow.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "base/types.hpp"

namespace lm {

// Returns a * b. Throws Error(usage) when the product does not fit in 64 bits. Use this function
// for every product of sizes.
i64 checked_mul(i64 a, i64 b);

class Shape {
  public:
    static constexpr int max_rank = 4;

    Shape() = default;  // a scalar: rank 0, one element
    Shape(std::initializer_list<i64> dims);
    explicit Shape(std::span<const i64> dims);

    int rank() const { return rank_; }
    i64 operator[](int dim) const { return dims_[dim]; }
    i64& operator[](int dim) { return dims_[dim]; }
    i64 numel() const;  // number of elements; throws like checked_mul()
    std::span<const i64> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
    std::string str() const;  // "[50257, 768]"

    friend bool operator==(const Shape& a, const Shape& b) {
        return std::ranges::equal(a.dims(), b.dims());
    }

  private:
    std::array<i64, max_rank> dims_{};
    int rank_ = 0;
};

}  // namespace lm
