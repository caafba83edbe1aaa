// SPDX-License-Identifier: Apache-2.0
// The CUDA plugin's tests, for the GPU of this machine or the emulator (LM_PLUGIN_DIR). Exit code
// 77: skipped, there is no GPU, or not enough of them for any case; the last line says why.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "skip.hpp"
#include "train/open_device.hpp"

int main(int argc, char** argv) {
    std::string why;
    // As one of several ranks: so are those of the tests of NCCL, which share this process.
    if (!lm::train::cuda_is_usable(why, 0, 2)) {
        fmt::print("skipped: {}\n", why);
        return 77;
    }
    const int code = Catch::Session().run(argc, argv);
    why = lm::test::why_nothing_ran();
    if (code != 0 || why.empty()) return code;
    fmt::print("skipped: {}\n", why);
    return 77;
}
