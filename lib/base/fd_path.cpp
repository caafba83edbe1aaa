// SPDX-License-Identifier: Apache-2.0
#include "base/fd_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace lm {
namespace {

constexpr std::string_view descriptors = "/proc/self/fd/";

// Returns the name behind an fd_path(); "" for a pipe or a socket, which have none.
std::string name_behind(const std::string& path) {
    std::error_code error;
    std::string name = std::filesystem::read_symlink(path, error).string();
    if (error || !name.starts_with('/')) return "";
    const std::string here = std::filesystem::current_path(error).string() + "/";
    if (!error && name.starts_with(here)) name.erase(0, here.size());
    return name;
}

}  // namespace

std::string fd_path(int fd) {
    return fmt::format("{}{}", descriptors, fd);
}

std::string without_fd_paths(std::string text) {
    for (size_t at = text.find(descriptors); at != text.npos; at = text.find(descriptors, at)) {
        const size_t end = text.find_first_not_of("0123456789", at + descriptors.size());
        const size_t n = std::min(end, text.size()) - at;
        const std::string name = name_behind(text.substr(at, n));
        if (!name.empty()) text.replace(at, n, name);
        at += name.empty() ? n : name.size();
    }
    return text;
}

}  // namespace lm
