// SPDX-License-Identifier: Apache-2.0
// Asks cuDNN whether it supports the attention graphs on an H100, and for the size of their
// workspace. Needs no GPU: plans are built, but not run (driver_stand_in.py).
#define CATCH_CONFIG_RUNNER
#include "cuda/cudnn/cudnn_attention.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "cost/workspace.hpp"
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
    std::string why;
    entry()->workspace_on(problem, h100, 90, 132, why);
    return why;
}

// Returns the workspace that lm-train plans for a model with this attention.
i64 planned_bytes(const CudnnProblem& p) {
    spec::ModelConfig config;
    config.n_layers = 1;
    config.n_heads = p.n_heads;
    config.n_groups = p.n_groups;
    config.head_dim = p.width;
    config.hidden = p.n_heads * p.width;
    config.ffn_hidden = config.hidden;
    config.seq_length = p.length;
    config.attention_dropout = 0;
    const cost::StepShape step{
        .micro_batch = p.batch, .seq_length = p.length, .compute = DType::bf16, .cuda = true};
    return cost::cuda_workspace_bytes(config, {}, step, 0, spec::GpuAttention::cudnn);
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

// With a smaller workspace lm-train would use its own kernels, which are slower.
TEST_CASE("the planned workspace has room for the workspace that cuDNN needs", "[cudnn]") {
    const bool modified = GENERATE(false, true);  // ALiBi and documents
    for (CudnnProblem p : {CudnnProblem{false, true, 64, 1024, 12, 12, 64, 0.125F},
                           CudnnProblem{false, true, 16, 1024, 25, 25, 64, 0.125F},
                           CudnnProblem{false, true, 4, 4096, 16, 4, 128, 0.08838835F},
                           CudnnProblem{false, true, 2, 1000, 16, 4, 96, 0.1F},
                           CudnnProblem{false, true, 1, 17, 8, 1, 128, 0.1F}}) {
        p.alibi = p.documents = modified;
        i64 largest = 0;
        for (const bool backward : {false, true}) {
            p.backward = backward;
            CAPTURE(p.length, p.width, p.backward, modified);
            std::string why;
            const i64 bytes = entry()->workspace_on(p, h100, 90, 132, why);
            CHECK(why == "");
            CHECK(bytes >= 0);
            CHECK(bytes <= planned_bytes(p));
            largest = std::max(largest, bytes);
        }
        const i64 room = i64{40} << 20;  // 32 MiB for products, or 16 MiB more than cuDNN needs
        CHECK(planned_bytes(p) <= largest + largest / 10 + room);
    }
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
