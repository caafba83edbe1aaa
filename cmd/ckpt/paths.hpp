// SPDX-License-Identifier: Apache-2.0
// Paths and lists that the verbs of lm-ckpt are given.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt_tool {

// An existing directory, without slashes at the end. Throws Error(usage).
std::string existing_directory(std::string path);
// The last part of a path.
std::string base_name(const std::string& path);
// Is this the path of one step (not of a directory of steps)?
bool is_step_path(const std::string& path);
i64 directory_bytes(const std::string& path);
// "120" or "global_step120"; throws Error(usage) naming `object`.
i64 parse_step(const std::string& object, const std::string& text);
std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace lm::ckpt_tool
