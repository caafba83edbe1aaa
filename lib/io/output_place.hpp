// SPDX-License-Identifier: Apache-2.0
// Checks the directory of an output before any work is done.
#pragma once

#include <string>
#include <string_view>

namespace lm::io {

// Throws Error(usage) when a parent of `path`, at any depth, exists and is not a directory.
void refuse_file_as_parent(const std::string& path);

// Throws Error(usage) unless the directory that will hold the output `path` exists. `object`: what
// the error about a missing directory names first; empty: `path`.
void require_parent(const std::string& path, std::string_view object = {});

// Creates and removes a directory in `directory`. Returns the reason of the system why this fails,
// or an empty text. In file systems such as /proc, only this shows that nothing can be created.
std::string why_no_new_directory(const std::string& directory);

}  // namespace lm::io
