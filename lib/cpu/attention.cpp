// SPDX-License-Identifier: Apache-2.0
#include "cpu/ops.hpp"

namespace lm::cpu::fast {

void attention_forward(device::Context& context, const device::AttentionForward& a) {
    reference::attention_forward(context, a);
}
void attention_backward(device::Context& context, const device::AttentionBackward& a) {
    reference::attention_backward(context, a);
}

}  // namespace lm::cpu::fast
