// SPDX-License-Identifier: Apache-2.0
#include "train/device.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"

namespace lm::train {
namespace {

// Beside this library.
std::filesystem::path plugin_path() {
    if (const char* const directory = std::getenv("LM_PLUGIN_DIR")) {
        return std::filesystem::path(directory) / cuda::plugin_file;
    }
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&cuda_plugin), &info) == 0) return cuda::plugin_file;
    return std::filesystem::path(info.dli_fname).parent_path() / cuda::plugin_file;
}

const cuda::Plugin* open_plugin() {
    const std::filesystem::path path = plugin_path();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
        run_error("cuda",
                  "this build has no CUDA plugin ({}): build where nvcc is, or use --device cpu",
                  path.string());
    }
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error("cuda", "the CUDA plugin cannot be opened: {}: install CUDA's libraries",
                  dlerror());
    }
    using Entry = const cuda::Plugin* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, cuda::plugin_symbol));
    if (entry == nullptr) run_error(path.string(), "not a CUDA plugin of this toolkit");
    const cuda::Plugin* const plugin = entry();
    if (plugin->abi != cuda::plugin_abi) {
        run_error(path.string(),
                  "belongs to another version of the toolkit (ABI {}, not {}): install both from "
                  "one build",
                  plugin->abi, cuda::plugin_abi);
    }
    return plugin;
}

}  // namespace

const cuda::Plugin& cuda_plugin() {
    static const cuda::Plugin* const plugin = open_plugin();
    return *plugin;
}

bool cuda_is_usable(std::string& why) {
    try {
        return cuda_plugin().count_devices() > 0;
    } catch (const Error& error) {
        why = error.what();
        return false;
    }
}

}  // namespace lm::train
