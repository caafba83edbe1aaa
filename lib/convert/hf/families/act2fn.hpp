// SPDX-License-Identifier: Apache-2.0
// The activations of transformers' ACT2FN. The first name of an activation is written, unless the
// class has another name of it as its default.
#pragma once

#include <array>

#include "convert/hf/families/hf_class.hpp"

namespace lm::convert::hf {

inline constexpr std::array plain_activations{
    HfClass::ActivationName{"gelu_new", spec::Activation::gelu_tanh},
    HfClass::ActivationName{"gelu_fast", spec::Activation::gelu_tanh},
    HfClass::ActivationName{"gelu_pytorch_tanh", spec::Activation::gelu_tanh},
    HfClass::ActivationName{"gelu_python_tanh", spec::Activation::gelu_tanh},
    HfClass::ActivationName{"gelu_accurate", spec::Activation::gelu_tanh},
    HfClass::ActivationName{"gelu", spec::Activation::gelu_erf},
    HfClass::ActivationName{"gelu_python", spec::Activation::gelu_erf},
    HfClass::ActivationName{"relu2", spec::Activation::squared_relu}};
inline constexpr std::array gated_activations{
    HfClass::ActivationName{"silu", spec::Activation::swiglu},
    HfClass::ActivationName{"swish", spec::Activation::swiglu},
    HfClass::ActivationName{"gelu", spec::Activation::geglu},
    HfClass::ActivationName{"gelu_python", spec::Activation::geglu}};

}  // namespace lm::convert::hf
