// SPDX-License-Identifier: Apache-2.0
// Parsing of the paths and lists among the arguments of lm-ckpt.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::ckpt_tool {

// Returns `path` without slashes at the end. Throws Error(usage) unless it is an existing
// directory.
std::string existing_directory(std::string path);
// The same for a directory of steps. Throws Error(usage), with the right advice, for a single step
// and for a directory that lm-utils does not use: of Megatron, DeepSpeed or Hugging Face, or an
// empty one. Otherwise a backup or a retention of a wrong directory would do nothing, and report
// success.
std::string directory_of_steps(const std::string& path);
// Returns whether a directory of steps has a step, complete or not. A run has claimed a directory
// without steps, but not saved yet.
bool has_step(const std::string& directory);
// Returns the step that "120" or "global_step120" names. Throws Error(usage) naming `object` for
// another text.
i64 parse_step(const std::string& object, const std::string& text);
std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace lm::ckpt_tool
