// SPDX-License-Identifier: Apache-2.0
// Checks the directory of an output before any work is done.
#pragma once

#include <string>

namespace lm::io {

// Throws Error(usage) unless the directory that will hold the output `path` exists.
void require_parent(const std::string& path);

}  // namespace lm::io
