// SPDX-License-Identifier: Apache-2.0
// Operations that this backend does not have yet: they say so.
#include "base/error.hpp"
#include "cuda/ops.hpp"

namespace lm::cuda::ops {

#define LM_UNWRITTEN(name, Args)                                                       \
    void name(device::Context&, const device::Args&) {                                 \
        fail(Exit::failure, "cuda", "{} is not written yet: use --device cpu", #name); \
    }
LM_UNWRITTEN(linear_forward, LinearForward)
LM_UNWRITTEN(linear_backward_input, LinearBackwardInput)
LM_UNWRITTEN(linear_backward_weight, LinearBackwardWeight)
#undef LM_UNWRITTEN

}  // namespace lm::cuda::ops
