// SPDX-License-Identifier: Apache-2.0
#include "io/output_place.hpp"

#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::io {

void refuse_file_as_parent(const std::string& path) {
    std::string at = path;
    // parent_of() returns "." or "/" in the end. Both exist.
    do {
        at = parent_of(at);
    } while (!exists(at));
    std::error_code ignored;
    const bool is_dangling_link = !std::filesystem::exists(at, ignored);
    if (!is_directory(at) && !is_dangling_link)
        usage_error(at, "is a file, not a directory: choose another path");
}

void require_parent(const std::string& path, std::string_view object) {
    refuse_file_as_parent(path);
    const std::string parent = parent_of(path);
    if (!is_directory(parent)) {
        usage_error(object.empty() ? path : object,
                    "the directory {} does not exist: create it first", parent);
    }
}

std::string why_no_new_directory(const std::string& directory) {
    const std::string probe = temporary_name(directory + "/probe");
    std::error_code error;
    std::filesystem::create_directory(probe, error);
    if (error) return error.message();
    std::filesystem::remove(probe, error);
    return "";
}

}  // namespace lm::io
