// SPDX-License-Identifier: Apache-2.0
// The text of tables and figures, fitted to the width of a terminal.
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

// Returns the lines of `table`, with two spaces between columns. If the table is wider than `width`
// characters, divides its columns into blocks, one below the other. Also wraps the words of the
// last column if this column is aligned to the left. With `width` 0 there is no limit.
std::string text_of_table(const TextTable& table, size_t width);

// Returns the flags of a command in lines of at most `width` characters, which a shell joins. All
// lines start in column `indent`. With `width` 0 there is one line.
std::string wrapped_flags(const std::string& flags, size_t indent, size_t width);

// Returns "  HEADING: FORMULA" and a newline; lines of more than `width` columns are wrapped.
std::string formula_line(const std::string& heading, const std::string& formula, size_t width);

}  // namespace lm::estimate
