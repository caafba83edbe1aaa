// SPDX-License-Identifier: Apache-2.0
// Asks cuDNN whether it supports the attention graphs on an H100. Needs no GPU: no graph is run.
#define CATCH_CONFIG_RUNNER
#include "cuda/cudnn/cudnn_attention.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::cuda;

namespace {

CudnnPluginEntry entry = nullptr;

// The description of a GPU in the format of cuDNN 9.8 and later.
constexpr const char* h100 = R"({"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900,
    "driverVer": 13000, "totalGlobalMem": 85899345920, "cudaDeviceId": 0, "pciDeviceId": 9008,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxSharedMemoryPerSM": 233472,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "smVersion": 900})";

std::string why_not(const CudnnProblem& problem) {
    return entry()->unsupported_on(problem, h100, 90, 132);
}

}  // namespace

TEST_CASE("cuDNN has engines for attention on an H100", "[cudnn]") {
    const bool backward = GENERATE(false, true);
    const bool bf16 = GENERATE(false, true);
    CAPTURE(backward, bf16);
    CHECK(why_not({backward, bf16, 4, 1024, 12, 12, 64, 0.125F}) == "");
    CHECK(why_not({backward, bf16, 1, 4096, 32, 8, 128, 0.08838835F}) == "");
    CHECK(why_not({backward, bf16, 3, 200, 6, 1, 64, 0.125F}) == "");
}

TEST_CASE("cuDNN has engines for ALiBi and documents", "[cudnn]") {
    const bool backward = GENERATE(false, true);
    const bool alibi = GENERATE(false, true);
    const bool documents = GENERATE(false, true);
    CAPTURE(backward, alibi, documents);
    CHECK(why_not({backward, true, 4, 1024, 12, 12, 64, 0.125F, alibi, documents}) == "");
    CHECK(why_not({backward, true, 4, 1024, 16, 4, 128, 0.125F, alibi, documents}) == "");
}

TEST_CASE("unsupported problems return a reason", "[cudnn]") {
    CHECK(why_not({true, true, 4, 1024, 12, 12, 320, 0.05F}) != "");
    CHECK(why_not({false, true, 4, 1024, 12, 12, 65, 0.125F}) != "");
}

int main(int argc, char** argv) {
    void* const library = dlopen(cudnn_plugin_file, RTLD_NOW);
    if (library == nullptr) {
        fmt::print("skipped: {}\n", dlerror());
        return 77;
    }
    entry = reinterpret_cast<CudnnPluginEntry>(dlsym(library, cudnn_plugin_entry));
    if (entry == nullptr) return 1;
    return Catch::Session().run(argc, argv);
}
