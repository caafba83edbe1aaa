// SPDX-License-Identifier: Apache-2.0
// GELU (Hendrycks & Gimpel, 2016) in its erf and tanh forms, and the squared ReLU (So et al. 2021):
// value and derivative, as scalar code for the reference loops.
#pragma once

#include <cmath>
#include <numbers>

#include "device/ops.hpp"

namespace lm::cpu {

inline double activation_value(device::Activation kind, double x) {
    if (kind == device::Activation::none) return x;
    if (kind == device::Activation::squared_relu) return x < 0 ? 0.0 : x * x;
    if (kind == device::Activation::gelu_erf) {
        return 0.5 * x * (1.0 + std::erf(x * std::numbers::sqrt2 / 2));
    }
    const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + std::tanh(u));
}

inline double activation_slope(device::Activation kind, double x) {
    if (kind == device::Activation::none) return 1.0;
    if (kind == device::Activation::squared_relu) return x < 0 ? 0.0 : 2 * x;
    if (kind == device::Activation::gelu_erf) {
        const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
        return 0.5 * (1.0 + std::erf(x * std::numbers::sqrt2 / 2)) + x * density;
    }
    const double root = std::sqrt(2 / std::numbers::pi);
    const double t = std::tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3 * 0.044715 * x * x);
}

}  // namespace lm::cpu
