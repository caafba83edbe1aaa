// SPDX-License-Identifier: Apache-2.0
// The activation function of the MLP.
#pragma once

#include <array>
#include <string_view>

#include "base/named.hpp"

namespace lm::spec {

// gelu_tanh is Megatron's fused bias-GELU and Hugging Face's gelu_new. gelu_erf is Hugging Face's
// gelu. squared_relu is max(x, 0)^2 (So et al. 2021, "Primer"). swiglu and geglu are gated linear
// units (Shazeer 2020, "GLU variants improve transformer"): swiglu gates by silu(x) = x / (1 +
// exp(-x)), geglu by gelu_erf.
enum class Activation {
    none,  // only for single operations: the MLP of a model always has an activation
    gelu_tanh,
    gelu_erf,
    squared_relu,
    swiglu,
    geglu
};
// The activations of models.
inline constexpr std::array activations{
    Named{Activation::gelu_tanh, "gelu_tanh"}, Named{Activation::gelu_erf, "gelu_erf"},
    Named{Activation::squared_relu, "squared_relu"}, Named{Activation::swiglu, "swiglu"},
    Named{Activation::geglu, "geglu"}};

inline std::string_view name_of(Activation value) {
    return value == Activation::none ? "none" : name_in(activations, value);
}

// Returns true for a gated linear unit, which has a gate projection in addition to the up
// projection.
constexpr bool is_gated(Activation activation) {
    return activation == Activation::swiglu || activation == Activation::geglu;
}

}  // namespace lm::spec
