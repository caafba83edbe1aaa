// SPDX-License-Identifier: Apache-2.0
// Conversion of counts to floating-point numbers.
#pragma once

#include "base/types.hpp"

namespace lm {

// Returns the double nearest to n. It is exact up to 2^53.
constexpr double as_double(i64 n) {
    return static_cast<double>(n);
}

}  // namespace lm
