// SPDX-License-Identifier: Apache-2.0
// Text of tables and figures, in the width of a terminal.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::estimate {

struct TextTable {
    std::vector<std::vector<std::string>> lines;  // [n_lines][n_columns]
    std::vector<bool> left;                       // [n_columns]; true: aligned to the left
    size_t n_keys = 1;        // columns that name a row; each block of a divided table repeats them
    bool best_first = false;  // line 1, after the headings, is green on a terminal
};

// Returns the lines of `table`, columns two spaces apart. A table wider than `width` columns is
// divided into blocks; a last column of words is wrapped. `width` 0: no limit.
std::string text_of_table(const TextTable& table, size_t width);

// Returns a command's flags in lines of at most `width` columns, which a shell joins. The first
// line starts in column `indent`, as the others do. `width` 0: one line.
std::string wrapped_flags(const std::string& flags, size_t indent, size_t width);

// Returns "  HEADING: FORMULA" and a newline; lines of more than `width` columns are wrapped.
std::string formula_line(const std::string& heading, const std::string& formula, size_t width);

}  // namespace lm::estimate
