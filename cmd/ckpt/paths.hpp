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
// Returns the step that "120" or "global_step120" names. Throws Error(usage) naming `object` for
// another text.
i64 parse_step(const std::string& object, const std::string& text);
std::vector<std::string> split_at_commas(const std::string& text);

}  // namespace lm::ckpt_tool
