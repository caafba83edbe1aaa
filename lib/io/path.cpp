// SPDX-License-Identifier: Apache-2.0
#include "io/path.hpp"

namespace lm::io {

std::string parent_of(const std::string& path) {
    const size_t end = path.find_last_not_of('/');
    if (end == path.npos) return path.empty() ? "." : "/";
    const size_t slash = path.find_last_of('/', end);
    if (slash == path.npos) return ".";
    const size_t last = path.find_last_not_of('/', slash);
    return last == path.npos ? "/" : path.substr(0, last + 1);
}

std::string base_name(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == path.npos ? path : path.substr(slash + 1);
}

bool is_below(const std::string& path, const std::string& directory) {
    return !directory.empty() && path.starts_with(without_trailing_slashes(directory) + "/");
}

std::string without_trailing_slashes(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

}  // namespace lm::io
