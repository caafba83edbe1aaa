// SPDX-License-Identifier: Apache-2.0
// Checks of the value of an option against its bounds. Each function throws Error(usage) with a
// text such as "--micro-batch-size: must be at least 1, got 0". A NaN fails every check; an option
// that was not given (an empty optional) passes every check.
#pragma once

#include "base/error.hpp"

#include <optional>
#include <type_traits>

namespace lm {

template <typename T>
void check_at_least(std::string_view flag, T value, std::type_identity_t<T> least) {
    if (!(value >= least)) usage_error(flag, "must be at least {}, got {}", least, value);
}

template <typename T>
void check_at_least(std::string_view flag, const std::optional<T>& value,
                    std::type_identity_t<T> least) {
    if (value) check_at_least(flag, *value, least);
}

template <typename T>
void check_at_most(std::string_view flag, T value, std::type_identity_t<T> most) {
    if (!(value <= most)) usage_error(flag, "must be at most {}, got {}", most, value);
}

// Checks least <= value <= most.
template <typename T>
void check_from_to(std::string_view flag, T value, std::type_identity_t<T> least,
                   std::type_identity_t<T> most) {
    if (!(value >= least && value <= most))
        usage_error(flag, "must be from {} to {}, got {}", least, most, value);
}

// Checks value > bound.
template <typename T>
void check_above(std::string_view flag, T value, std::type_identity_t<T> bound) {
    if (!(value > bound)) usage_error(flag, "must be above {}, got {}", bound, value);
}

// Checks bound < value <= most.
template <typename T>
void check_above_to(std::string_view flag, const std::optional<T>& value,
                    std::type_identity_t<T> bound, std::type_identity_t<T> most) {
    if (value && !(*value > bound && *value <= most))
        usage_error(flag, "must be above {} and at most {}, got {}", bound, most, *value);
}

// Checks 0 <= value < 1, for a probability, a share or the rate of a moving average.
inline void check_below_one(std::string_view flag, double value) {
    if (!(value >= 0.0 && value < 1.0))
        usage_error(flag, "must be at least 0 and below 1, got {}", value);
}

}  // namespace lm
