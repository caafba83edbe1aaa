// SPDX-License-Identifier: Apache-2.0
// The directory that a conversion makes.
#pragma once

#include <string>
#include <vector>

#include "io/file.hpp"

namespace lm::convert {

// Throws Error(usage) when `out` exists without `force`, lies around or is one of `ins`, or is a
// directory that is no model at all: --force never removes anything else.
io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force);

}  // namespace lm::convert
