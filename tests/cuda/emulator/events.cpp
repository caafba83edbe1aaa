// SPDX-License-Identifier: Apache-2.0
#include "events.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

namespace emulator {

void log(const std::string& line) {
    static const char* const path = std::getenv("EMULATED_CUDA_LOG");
    if (path == nullptr) return;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    static std::FILE* const file = std::fopen(fmt::format("{}.{}", path, getpid()).c_str(), "w");
    if (file == nullptr) return;
    fmt::print(file, "{}\n", line);
    std::fflush(file);
}

void log_launch(const cudaLaunchConfig_t& config, const void* kernel) {
    static const bool on = std::getenv("EMULATED_CUDA_LAUNCHES") != nullptr;
    Dl_info library;
    if (!on || dladdr(kernel, &library) == 0) return;
    const dim3& block = config.blockDim;
    log(fmt::format(
        "launch {:x} {} {}",
        static_cast<const std::byte*>(kernel) - static_cast<const std::byte*>(library.dli_fbase),
        block.x * block.y * block.z, config.dynamicSmemBytes));
}

void load(const std::string& code) {
    static const bool on = std::getenv("EMULATED_CUDA_LOADING") != nullptr;
    if (!on) return;
    static std::mutex mutex;
    static std::set<std::pair<int, std::string>> loaded;
    int device = 0;
    cudaGetDevice(&device);
    {
        const std::lock_guard lock(mutex);
        if (!loaded.emplace(device, code).second) return;
    }
    log("loaded: " + code);
    cudaDeviceSynchronize();
}

}  // namespace emulator
