// SPDX-License-Identifier: Apache-2.0
#include "io/path.hpp"

#include <algorithm>

#include "base/utf8.hpp"

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

bool is_plain_name(std::string_view name) {
    const bool printable = std::ranges::all_of(
        name, [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '/' && c != '\\'; });
    return printable && !name.empty() && name != "." && name != ".." && is_valid_utf8(name);
}

bool is_plain_path(std::string_view path) {
    for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
        if (!is_plain_name(path.substr(0, slash))) return false;
        path.remove_prefix(slash + 1);
    }
    return is_plain_name(path);
}

}  // namespace lm::io
