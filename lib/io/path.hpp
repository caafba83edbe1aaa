// SPDX-License-Identifier: Apache-2.0
// The parts of a path, computed from its text only. No function reads a directory.
#pragma once

#include <string>

namespace lm::io {

std::string parent_of(const std::string& path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"
// Returns the last component: "a/b" -> "b". Expects no slash at the end.
std::string base_name(const std::string& path);
// Returns whether `path` begins with `directory`, as text.
bool is_below(const std::string& path, const std::string& directory);
std::string without_trailing_slashes(std::string path);  // "a//" -> "a", "/" -> "/"

}  // namespace lm::io
