// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a description of hardware are parsed, or refused with Error.
#include "base/error.hpp"
#include "cost/hardware.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    try {
        const auto* text = reinterpret_cast<const char*>(data);
        const lm::cost::Hardware hardware = lm::cost::parse_hardware("fuzz.txt", {text, size});
        if (!(hardware.matmul_flops > 0) || hardware.sms < 1) __builtin_trap();
    } catch (const lm::Error&) {
    }
    return 0;
}
