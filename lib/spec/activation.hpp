// SPDX-License-Identifier: Apache-2.0
// The activation function of the MLP: names, flags, and the definitions in double precision.
#pragma once

#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/named.hpp"

namespace lm::spec {

// gelu_tanh is Megatron's fused bias-GELU and Hugging Face's gelu_new. gelu_erf is Hugging Face's
// gelu. squared_relu is max(x, 0)^2 (So et al. 2021, "Primer"). swiglu and geglu are gated linear
// units (Shazeer 2020, "GLU variants improve transformer"): swiglu gates by silu(x) = x / (1 +
// exp(-x)), geglu by gelu_erf, geglu_tanh by gelu_tanh.
enum class Activation {
    none,  // only for single operations: the MLP of a model always has an activation
    gelu_tanh,
    gelu_erf,
    squared_relu,
    swiglu,
    geglu,
    geglu_tanh
};
// The activations of models.
inline constexpr std::array activations{Named{Activation::gelu_tanh, "gelu_tanh"},
                                        Named{Activation::gelu_erf, "gelu_erf"},
                                        Named{Activation::squared_relu, "squared_relu"},
                                        Named{Activation::swiglu, "swiglu"},
                                        Named{Activation::geglu, "geglu"},
                                        Named{Activation::geglu_tanh, "geglu_tanh"}};

inline std::string_view name_of(Activation value) {
    return value == Activation::none ? "none" : name_in(activations, value);
}

// Returns true for a gated linear unit, which has a gate projection in addition to the up
// projection.
constexpr bool is_gated(Activation activation) {
    switch (activation) {
        case Activation::none:
        case Activation::gelu_tanh:
        case Activation::gelu_erf:
        case Activation::squared_relu:
            return false;
        case Activation::swiglu:
        case Activation::geglu:
        case Activation::geglu_tanh:
            return true;
    }
    __builtin_unreachable();
}

// Returns the flag that chooses this activation and no other. Megatron has the same flag, and its
// checkpoints the argument. Returns "" when other flags choose the activation: --glu-activation
// with its name, or those of GELU.
constexpr std::string_view switch_of(Activation activation) {
    switch (activation) {
        case Activation::none:
        case Activation::gelu_tanh:
        case Activation::gelu_erf:
        case Activation::geglu:
        case Activation::geglu_tanh:
            return "";
        case Activation::squared_relu:
            return "--squared-relu";
        case Activation::swiglu:
            return "--swiglu";
    }
    __builtin_unreachable();
}

// Returns the value of the function at x; of a gated unit, the value of its gate's function.
inline double activation_value(Activation activation, double x) {
    switch (activation) {
        case Activation::none:
            return x;
        case Activation::gelu_tanh:
        case Activation::geglu_tanh: {
            const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1.0 + std::tanh(u));
        }
        case Activation::gelu_erf:
        case Activation::geglu:
            return 0.5 * x * (1.0 + std::erf(x * std::numbers::sqrt2 / 2));
        case Activation::squared_relu:
            return x < 0 ? 0.0 : x * x;
        case Activation::swiglu:
            return x / (1.0 + std::exp(-x));
    }
    __builtin_unreachable();
}

// Returns the derivative of activation_value().
inline double activation_slope(Activation activation, double x) {
    switch (activation) {
        case Activation::none:
            return 1.0;
        case Activation::gelu_tanh:
        case Activation::geglu_tanh: {
            const double root = std::sqrt(2 / std::numbers::pi);
            const double t = std::tanh(root * (x + 0.044715 * x * x * x));
            return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3 * 0.044715 * x * x);
        }
        case Activation::gelu_erf:
        case Activation::geglu: {
            const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
            return 0.5 * (1.0 + std::erf(x * std::numbers::sqrt2 / 2)) + x * density;
        }
        case Activation::squared_relu:
            return x < 0 ? 0.0 : 2 * x;
        case Activation::swiglu: {
            const double s = 1.0 / (1.0 + std::exp(-x));
            return s * (1.0 + x * (1.0 - s));
        }
    }
    __builtin_unreachable();
}

}  // namespace lm::spec
