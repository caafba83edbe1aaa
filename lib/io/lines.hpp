// SPDX-License-Identifier: Apache-2.0
// Splits texts, and streams in bounded memory, into lines.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "io/stream.hpp"

namespace lm::io {

// Returns the lines of `text` without their newlines; the last line may have no newline.
std::vector<std::string_view> lines_of(std::string_view text);

// A longer line is passed on in parts of at most this many bytes.
constexpr size_t longest_line = size_t{64} << 10;

// Calls `use` with every line that is not empty, without its end. A line ends with a newline, a
// carriage return (with which programs overwrite a progress line) or both; the last line may have
// no end.
void for_each_line(InputStream& stream, const std::function<void(std::string_view)>& use);

// Does the work of for_each_line(), but stops when `use` returns false.
void for_lines_while(InputStream& stream, const std::function<bool(std::string_view)>& use);

}  // namespace lm::io
