// SPDX-License-Identifier: Apache-2.0
// The CUDA plugin's tests, for the GPU of this machine or the emulator (LM_PLUGIN_DIR). Exit code
// 77: skipped, there is no GPU; the last line says why.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "train/device.hpp"

int main(int argc, char** argv) {
    std::string why;
    if (!lm::train::cuda_is_usable(why)) {
        fmt::print("skipped: {}\n", why);
        return 77;
    }
    return Catch::Session().run(argc, argv);
}
