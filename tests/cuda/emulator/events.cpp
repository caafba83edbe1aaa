// SPDX-License-Identifier: Apache-2.0
#include "events.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "cuda_runtime.h"

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

void load(const std::string& code) {
    static const bool on = std::getenv("EMULATED_CUDA_LOADING") != nullptr;
    if (!on) return;
    static std::mutex mutex;
    static std::set<std::string> loaded;
    {
        const std::lock_guard lock(mutex);
        if (!loaded.insert(code).second) return;
    }
    log("loaded: " + code);
    cudaDeviceSynchronize();
}

}  // namespace emulator
