// SPDX-License-Identifier: Apache-2.0
// The lines of a stream, of any length, in bounded memory.
#pragma once

#include <functional>
#include <string_view>

#include "io/stream.hpp"

namespace lm::io {

// Lines that are longer are given in pieces of this size.
constexpr size_t longest_line = size_t{64} << 10;

// Calls `take` with every line, without its end: a newline, a carriage return (which programs use
// to overwrite a line of progress) or both; empty lines are left out. What stands behind the last
// end of line is a line, too.
void for_each_line(InputStream& stream, const std::function<void(std::string_view)>& take);

}  // namespace lm::io
