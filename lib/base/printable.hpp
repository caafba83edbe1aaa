// SPDX-License-Identifier: Apache-2.0
// Text of others (file names, fields of files, the output of programs) for a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace lm {

// Returns `text` on one line: control characters (C0, DEL, C1) and bytes that are not UTF-8 become
// C escapes, such as \n and \x1b. Other text is not changed.
std::string printable(std::string_view text);
// Returns a text of several lines, each of which becomes printable().
std::string printable_lines(std::string_view text);

}  // namespace lm
