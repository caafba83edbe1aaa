// SPDX-License-Identifier: Apache-2.0
// The time stamps of files.
#pragma once

#include <string>

namespace lm::io {

// Returns the Unix time of the last change of a file's content, in seconds. Throws Error(failure).
double modified_s(const std::string& path);

}  // namespace lm::io
