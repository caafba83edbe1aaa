// SPDX-License-Identifier: Apache-2.0
#include "text_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "cli/color.hpp"
#include "cli/option_text.hpp"

namespace lm::estimate {
namespace {

constexpr size_t gap = 2;
constexpr size_t least_words = 24;  // smallest width of a column whose words are wrapped

std::vector<size_t> widths_of(const TextTable& table) {
    std::vector<size_t> widths(table.left.size());
    for (const auto& cells : table.lines) {
        for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
    }
    return widths;
}

// Returns the columns of each block of the table. If the last column has words that must be
// wrapped, sets the width of this column.
std::vector<std::vector<size_t>> blocks_of(const TextTable& table, size_t width,
                                           std::vector<size_t>& widths) {
    std::vector<size_t> keys;
    size_t used = 0;
    for (size_t i = 0; i < std::min(table.n_keys, widths.size()); ++i) {
        keys.push_back(i);
        used += widths[i] + gap;
    }
    std::vector<std::vector<size_t>> blocks = {keys};
    size_t at = used;  // the column where the next cell starts
    for (size_t i = keys.size(); i < widths.size(); ++i) {
        const bool words = i + 1 == widths.size() && table.left[i];
        const size_t least = words ? std::min(least_words, widths[i]) : widths[i];
        if (width > 0 && at + least > width && blocks.back().size() > keys.size()) {
            blocks.push_back(keys);
            at = used;
        }
        blocks.back().push_back(i);
        if (words && width > at + least) widths[i] = std::min(widths[i], width - at);
        at += widths[i] + gap;
    }
    return blocks;
}

std::string text_of_line(const std::vector<std::string>& cells, const std::vector<size_t>& block,
                         const std::vector<bool>& left, const std::vector<size_t>& widths) {
    std::string line;
    for (const size_t i : block) {
        if (i >= cells.size()) break;
        const size_t start = line.empty() ? 0 : line.size() + gap;
        line.resize(start, ' ');
        if (cells[i].size() <= widths[i]) {
            line += left[i] ? fmt::format("{:<{}}", cells[i], widths[i])
                            : fmt::format("{:>{}}", cells[i], widths[i]);
            continue;
        }
        const std::string next_line = "\n" + std::string(start, ' ');
        line += fmt::format("{}", fmt::join(cli::wrap(cells[i], widths[i]), next_line));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

}  // namespace

std::string text_of_table(const TextTable& table, size_t width) {
    std::vector<size_t> widths = widths_of(table);
    std::string text;
    for (const std::vector<size_t>& block : blocks_of(table, width, widths)) {
        if (!text.empty()) text += "\n";
        for (size_t row = 0; row < table.lines.size(); ++row) {
            const std::string line = text_of_line(table.lines[row], block, table.left, widths);
            const bool best = table.best_first && row == 1;
            text += best ? cli::colored(cli::Color::green, line, STDOUT_FILENO) : line;
            text += "\n";
        }
    }
    return text;
}

std::string wrapped_flags(const std::string& flags, size_t indent, size_t width) {
    constexpr std::string_view joint = " \\";
    if (width < indent + 2 * least_words) return flags;
    std::string text;
    size_t column = indent;
    for (size_t start = 0; start < flags.size();) {
        // A flag and its value stay on one line.
        const size_t end = std::min(flags.find(" --", start), flags.size());
        const std::string flag = flags.substr(start, end - start);
        if (start > 0 && column + 1 + flag.size() + joint.size() > width) {
            text += fmt::format("{}\n{}", joint, std::string(indent, ' '));
            column = indent;
        } else if (start > 0) {
            text += " ";
            ++column;
        }
        text += flag;
        column += flag.size();
        start = end + 1;
    }
    return text;
}

std::string formula_line(const std::string& heading, const std::string& formula, size_t width) {
    const std::string line = fmt::format("{}: {}", heading, formula);
    if (width < 2 * least_words || line.size() + 2 <= width) return "  " + line + "\n";
    return fmt::format("  {}\n", fmt::join(cli::wrap(line, width - 4), "\n    "));
}

}  // namespace lm::estimate
