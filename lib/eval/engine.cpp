// SPDX-License-Identifier: Apache-2.0
#include "eval/engine.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace lm::eval {
namespace {

constexpr const char* library_file = "liblm_train.so";

// Returns the path of liblm_train.so in the directory of this library.
std::string library_path() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&library_path), &info) == 0) return library_file;
    const std::string own = info.dli_fname;
    const size_t slash = own.rfind('/');
    return slash == std::string::npos ? library_file : own.substr(0, slash + 1) + library_file;
}

const EnginePlugin& open_plugin() {
    const std::string path = library_path();
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error(library_file,
                  "cannot be opened: {}: install the library in the directory of liblm.so",
                  dlerror());
    }
    using Entry = const EnginePlugin* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, engine_symbol));
    if (entry == nullptr || entry()->abi != engine_abi) {
        run_error(path,
                  "is of another version than this program: install the library and the program "
                  "from one build");
    }
    return *entry();
}

}  // namespace

std::unique_ptr<Engine> open_engine(const ckpt::TensorSource& source,
                                    const EngineOptions& options) {
    return open_plugin().open(source, options);
}

}  // namespace lm::eval
