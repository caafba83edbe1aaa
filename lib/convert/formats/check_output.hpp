// SPDX-License-Identifier: Apache-2.0
// Checks that an existing output is complete, by its headers and indexes.
#pragma once

#include <string>

#include "convert/formats/model_format.hpp"

namespace lm::convert {

// Throws Error unless `path` is a complete model of the given format: the model has each tensor of
// its configuration, with all elements, in files of the right size. Reads hardly any tensor data.
void check_output(const std::string& path, const ModelFormat& format);

}  // namespace lm::convert
