// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_library.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.hpp"

namespace lm::cuda {
namespace {

constexpr const char* file = "libnccl.so.2";
// Versions before 2.20 are untested.
constexpr int oldest = NCCL_VERSION(2, 20, 0);
constexpr int scalable = NCCL_VERSION(2, 23, 0);

// Returns the path of libnccl.so.2 in the directory of this plugin.
std::filesystem::path path_next_to_plugin() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&path_next_to_plugin), &info) == 0) return file;
    return std::filesystem::path(info.dli_fname).parent_path() / file;
}

// Opens the NCCL library in the directory of the plugin, or if there is none, the library that the
// dynamic linker finds.
void* open_library() {
    std::error_code ignored;
    const std::filesystem::path path = path_next_to_plugin();
    const bool exists = std::filesystem::exists(path, ignored);
    void* const library = dlopen(exists ? path.c_str() : file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error(
            "NCCL",
            "cannot open the library, which several GPUs need: {}: install NCCL {}.{} or later, "
            "or add the directory of {} to LD_LIBRARY_PATH",
            dlerror(), oldest / 10000, oldest / 100 % 100, file);
    }
    return library;
}

Nccl load() {
    void* const library = open_library();
    Nccl table;
    const auto find = [library](const char* name) {
        void* const function = dlsym(library, name);
        if (function == nullptr) {
            run_error("NCCL", "{} lacks {}: install NCCL {}.{} or later", file, name,
                      oldest / 10000, oldest / 100 % 100);
        }
        return function;
    };
#define LM_FIND(name) table.name = reinterpret_cast<decltype(&nccl##name)>(find("nccl" #name));
    LM_NCCL_FUNCTIONS(LM_FIND)
#undef LM_FIND
    int version = 0;  // 10000 * major + 100 * minor + patch
    table.GetVersion(&version);
    if (version < oldest) {
        run_error("NCCL", "{} is version {}.{}, too old: install NCCL {}.{} or later", file,
                  version / 10000, version / 100 % 100, oldest / 10000, oldest / 100 % 100);
    }
    if (version >= scalable) {  // optional: without it all ranks share one bootstrap root
        table.CommInitRankScalable = reinterpret_cast<decltype(table.CommInitRankScalable)>(
            dlsym(library, "ncclCommInitRankScalable"));
    }
    return table;
}

}  // namespace

const Nccl& nccl() {
    static const Nccl table = load();
    return table;
}

}  // namespace lm::cuda
