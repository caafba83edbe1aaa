// SPDX-License-Identifier: Apache-2.0
#include "spec/activation.hpp"

namespace lm::spec {

std::string_view name_of(Activation value) {
    return value == Activation::none ? "none" : name_in(activations, value);
}

}  // namespace lm::spec
