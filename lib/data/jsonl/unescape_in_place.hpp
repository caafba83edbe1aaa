// SPDX-License-Identifier: Apache-2.0
// Decodes the escapes of a very long JSON string in place. simdjson always copies, and a second
// copy of the document would exceed the memory bound in lm-preprocess(1).
#pragma once

#include <cstddef>

namespace lm::data {

// Returns the closing quote of the string at `p`; nullptr when the string has a control character
// or an invalid escape. Reads up to 16 bytes beyond the position at which it stops.
const char* find_string_end(const char* p);

// Decodes the string [begin, end), which find_string_end() has checked, and returns its new length.
std::size_t unescape_in_place(char* begin, const char* end);

}  // namespace lm::data
