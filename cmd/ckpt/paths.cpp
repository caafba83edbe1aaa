// SPDX-License-Identifier: Apache-2.0
#include "paths.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::ckpt_tool {

std::string existing_directory(std::string path) {
    path = io::without_trailing_slashes(path);
    if (!io::exists(path)) usage_error(path, "does not exist: give a checkpoint directory");
    if (!io::is_directory(path))
        usage_error(path, "is not a directory: give a checkpoint directory");
    return path;
}

i64 parse_step(const std::string& object, const std::string& text) {
    const i64 step = ckpt::step_from_name(text);
    return step >= 0 ? step : parse_count(object, text);
}

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts;
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

}  // namespace lm::ckpt_tool
