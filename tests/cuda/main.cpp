// SPDX-License-Identifier: Apache-2.0
// Tests of the CUDA plugin, on the GPU of this machine or on the emulator (LM_PLUGIN_DIR). Exit
// code 77 means that the tests are skipped, because there is no GPU, or there are too few GPUs for
// every case; the last line has the reason.
#define CATCH_CONFIG_RUNNER
#include <fmt/format.h>

#include <cstdlib>

#include "skip.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

int main(int argc, char** argv) {
    // lm-train sets this for a job of several ranks; the NCCL tests run ranks in this process.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    std::string why = lm::train::claim_gpu();
    if (!why.empty()) {
        fmt::print("skipped: {}\n", why);
        return 77;
    }
    const int code = Catch::Session().run(argc, argv);
    why = lm::test::why_all_skipped();
    if (code != 0 || why.empty()) return code;
    fmt::print("skipped: {}\n", why);
    return 77;
}
