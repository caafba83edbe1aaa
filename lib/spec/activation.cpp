// SPDX-License-Identifier: Apache-2.0
#include "spec/activation.hpp"

namespace lm::spec {

std::string_view name_of(Activation value) {
    switch (value) {
        case Activation::none:
            return "none";
        case Activation::gelu_tanh:
            return "gelu_tanh";
        case Activation::gelu_erf:
            return "gelu_erf";
        case Activation::swiglu:
            return "swiglu";
        case Activation::geglu:
            return "geglu";
    }
    return "?";
}

}  // namespace lm::spec
