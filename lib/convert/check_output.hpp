// SPDX-License-Identifier: Apache-2.0
// Checks by headers and indexes that an existing output is complete.
#pragma once

#include <string>

#include "convert/conversion.hpp"

namespace lm::convert {

// Throws Error unless `path` is a model of the given format, in which every tensor of its
// configuration has all its elements in files of the right size. Reads hardly any tensor data.
void check_output(const std::string& path, Format format);

}  // namespace lm::convert
