// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/json.hpp"

namespace lm::io {

// A document on one line of its own, as --json prints it; like json_text() it writes U+FFFD for
// bytes that are not UTF-8.
std::string json_line(const OrderedJson& document);

}  // namespace lm::io
