// SPDX-License-Identifier: Apache-2.0
// The parts of a path, computed from its text only. No function reads a directory.
#pragma once

#include <string>
#include <string_view>

namespace lm::io {

std::string parent_of(const std::string& path);  // "a/b" -> "a", "b" -> ".", "/b" -> "/"
// Returns the last component: "a/b" -> "b". Expects no slash at the end.
std::string base_name(const std::string& path);
// Returns whether `path` begins with `directory`, as text.
bool is_below(const std::string& path, const std::string& directory);
std::string without_trailing_slashes(std::string path);  // "a//" -> "a", "/" -> "/"

// Check of names that a file states: a manifest, an index of Hugging Face, .metadata of PyTorch, a
// zip archive. Such a file may come from a stranger, and its names must not lead out of its
// directory, or change the terminal that prints them.
// Returns whether `name` names a file in the directory itself: printable UTF-8 that is not empty,
// "." or "..", and contains no '/' and no '\\'.
bool is_plain_name(std::string_view name);
// Returns whether `path` consists of plain names, separated by '/'.
bool is_plain_path(std::string_view path);

}  // namespace lm::io
