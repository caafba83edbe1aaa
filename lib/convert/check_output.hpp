// SPDX-License-Identifier: Apache-2.0
// Checks that an existing output is complete, by its headers and indexes.
#pragma once

#include <string>

#include "convert/conversion.hpp"

namespace lm::convert {

// Throws Error unless `path` is a model of the given format that has all elements of each tensor of
// its configuration, in files of the right size. Reads hardly any tensor data.
void check_output(const std::string& path, Format format);

}  // namespace lm::convert
