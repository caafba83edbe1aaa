// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/abandon.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
i64 number_after(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return 0;
    name.remove_prefix(prefix.size());
    i64 number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size() && number > 0 ? number : 0;
}

i64 abandoned_generation(std::string_view name) {
    return number_after(name, abandoned_prefix);
}

std::string abandoned_path(const std::string& directory, i64 generation) {
    return fmt::format("{}/{}{}", directory, abandoned_prefix, generation);
}

std::string set_aside(const std::string& directory, const std::string& name, i64 generation) {
    const std::string from = directory + "/" + name;
    const auto to =
        io::make_directories_in(directory, fmt::format("{}{}", abandoned_prefix, generation));
    std::string free = name;
    for (int n = 2; !io::checked::rename_new(from, to / free); ++n)
        free = fmt::format("{}.{}", name, n);
    io::checked::fsync_path(to.path());
    io::checked::fsync_parent_of(from);
    return abandoned_path(directory, generation) + "/" + free;
}

std::vector<std::string> abandoned_in(const std::string& directory) {
    std::vector<std::string> names;
    for (const std::string& name : io::list_directory(directory)) {
        if (abandoned_generation(name) > 0) names.push_back(name);
    }
    std::ranges::sort(names, {}, abandoned_generation);
    return names;
}

i64 newest_abandoned(const std::string& directory) {
    const std::vector<std::string> names = abandoned_in(directory);
    return names.empty() ? 0 : abandoned_generation(names.back());
}

}  // namespace lm::ckpt
