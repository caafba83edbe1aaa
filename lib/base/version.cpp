// SPDX-License-Identifier: Apache-2.0
#include "base/version.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace lm {

std::string share_file(std::string_view relative) {
    namespace fs = std::filesystem;
    std::vector<std::string> roots;
    if (const char* env = std::getenv("LM_SHARE_DIR")) roots.emplace_back(env);
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
    if (!program.empty()) {
        roots.push_back((program.parent_path().parent_path() / "share/lm-utils").string());
    }
    roots.emplace_back(LM_INSTALL_SHARE);
    for (const std::string& root : roots) {
        const fs::path path = fs::path(root) / relative;
        if (fs::exists(path, ignored)) return path.string();
    }
    run_error(relative, "data file not found under {}: reinstall lm-utils, or set LM_SHARE_DIR",
              fmt::join(roots, ", "));
}

}  // namespace lm
