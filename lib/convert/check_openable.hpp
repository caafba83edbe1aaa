// SPDX-License-Identifier: Apache-2.0
// Checks by headers and indexes, without tensor data, that a directory is a complete model.
#pragma once

#include <string>

#include "convert/conversion.hpp"

namespace lm::convert {

// Opens the model `path` of the given format without reading tensor data. Throws Error unless every
// tensor of its configuration has all its elements in files of the right size.
void check_openable(const std::string& path, Format format);

}  // namespace lm::convert
