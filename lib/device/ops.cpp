// SPDX-License-Identifier: Apache-2.0
#include "device/ops.hpp"

#include "device/check.hpp"

namespace lm::device {

#define LM_OP_CALL(name, Args)                      \
    void name(Context& context, const Args& args) { \
        check(args);                                \
        context.device.ops().name(context, args);   \
    }
LM_OPS(LM_OP_CALL)
#undef LM_OP_CALL

}  // namespace lm::device
