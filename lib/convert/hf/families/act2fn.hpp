// SPDX-License-Identifier: Apache-2.0
// The activations of transformers' ACT2FN. The first name of an activation is written, unless the
// class has another name of it as its default.
#pragma once

#include <array>

#include "convert/hf/families/hf_class.hpp"

namespace lm::convert::hf {

inline constexpr std::array plain_activations{
    Named{spec::Activation::gelu_tanh, "gelu_new"},
    Named{spec::Activation::gelu_tanh, "gelu_fast"},
    Named{spec::Activation::gelu_tanh, "gelu_pytorch_tanh"},
    Named{spec::Activation::gelu_tanh, "gelu_python_tanh"},
    Named{spec::Activation::gelu_tanh, "gelu_accurate"},
    Named{spec::Activation::gelu_erf, "gelu"},
    Named{spec::Activation::gelu_erf, "gelu_python"},
    Named{spec::Activation::squared_relu, "relu2"}};
inline constexpr std::array gated_activations{
    Named{spec::Activation::swiglu, "silu"},
    Named{spec::Activation::swiglu, "swish"},
    Named{spec::Activation::geglu, "gelu"},
    Named{spec::Activation::geglu, "gelu_python"},
    Named{spec::Activation::geglu_tanh, "gelu_pytorch_tanh"},
    Named{spec::Activation::geglu_tanh, "gelu_new"},
    Named{spec::Activation::geglu_tanh, "gelu_fast"},
    Named{spec::Activation::geglu_tanh, "gelu_python_tanh"},
    Named{spec::Activation::geglu_tanh, "gelu_accurate"}};

}  // namespace lm::convert::hf
