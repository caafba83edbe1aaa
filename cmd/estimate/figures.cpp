// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "cli/color.hpp"
#include "cli/main.hpp"
#include "cli/option_text.hpp"
#include "cli/terminal.hpp"
#include "io/json.hpp"

namespace lm::estimate {
namespace {

struct TextTable {
    std::vector<std::vector<std::string>> lines;  // [n_lines][n_columns]
    std::vector<bool> left;                       // [n_columns]; true: aligned to the left
    size_t n_keys = 1;        // columns that name a row; each block of a divided table repeats them
    bool best_first = false;  // line 1, after the headings, is green on a terminal
};

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

// Returns the lines of `table`, with two spaces between columns. If the table is wider than `width`
// characters, divides its columns into blocks, one below the other. Also wraps the words of the
// last column if this column is aligned to the left. With `width` 0 there is no limit.
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

// Returns the flags of a command in lines of at most `width` characters, which a shell joins. All
// lines start in column `indent`. With `width` 0 there is one line.
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

// Returns "  HEADING: FORMULA" and a newline; lines of more than `width` columns are wrapped.
std::string formula_line(const std::string& heading, const std::string& formula, size_t width) {
    const std::string line = fmt::format("{}: {}", heading, formula);
    if (width < 2 * least_words || line.size() + 2 <= width) return "  " + line + "\n";
    return fmt::format("  {}\n", fmt::join(cli::wrap(line, width - 4), "\n    "));
}

std::string text_of(Unit unit, double value) {
    switch (unit) {
        case Unit::count:
            return with_separators(static_cast<i64>(std::llround(value)));
        case Unit::bytes:
            return human_size(static_cast<i64>(std::llround(value)));
        case Unit::seconds:
            return human_duration(value);
        case Unit::difference:
            return fmt::format("{:+.2f} %", 100 * value);
        case Unit::share:
            return fmt::format("{:.2f} %", 100 * value);
        case Unit::plain:
        case Unit::flags:
            break;
    }
    return fmt::format("{:.6g}", value);
}

std::string text_of(Unit unit, const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
    if (const auto* list = std::get_if<std::vector<i64>>(&value)) {
        return fmt::format("{}", fmt::join(*list, " "));
    }
    if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
    if (const auto* whole = std::get_if<i64>(&value)) {
        if (unit == Unit::count) return with_separators(*whole);
        if (unit == Unit::plain) return fmt::format("{}", *whole);
        return text_of(unit, static_cast<double>(*whole));
    }
    return text_of(unit, std::get<double>(value));
}

io::OrderedJson json_of(const Value& value) {
    return std::visit([](const auto& held) { return io::OrderedJson(held); }, value);
}

bool is_words(const Value& value) {
    return std::holds_alternative<std::string>(value) ||
           std::holds_alternative<std::vector<i64>>(value);
}

}  // namespace

std::string with_separators(i64 value) {
    const std::string digits = fmt::format("{}", value);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        const bool group_ends = i > 0 && (digits.size() - i) % 3 == 0 && text != "-";
        if (group_ends) text += ',';
        text += digits[i];
    }
    return text;
}

void add_count(Figures& figures, const char* key, const char* label, i64 value,
               std::string formula) {
    figures.push_back({key, label, Unit::count, value, std::move(formula)});
}

void add_seconds(Figures& figures, const char* key, const char* label, double value,
                 std::string formula) {
    figures.push_back({key, label, Unit::seconds, value, std::move(formula)});
}

void add_output_options(cli::Options& options, OutputFlags& flags) {
    options.group("Output");
    options.flag("--json", &flags.json, "print JSON Lines in base units (bytes, seconds)");
    options.flag("--explain", &flags.explain, "print the formula of every figure and its source");
}

void Printout::table(std::string kind, std::vector<Column> columns,
                     std::vector<std::vector<Value>> rows, size_t n_keys, bool best_first) {
    parts_.push_back(
        {std::move(kind), Form::table, std::move(columns), std::move(rows), n_keys, best_first});
}

void Printout::add_figures(std::string kind, Form form, std::vector<Figure> figures) {
    Part part{std::move(kind), form, {}, {{}}};
    for (Figure& figure : figures) {
        part.columns.push_back({std::move(figure.key), std::move(figure.label), figure.unit,
                                std::move(figure.formula)});
        part.rows[0].push_back(std::move(figure.value));
    }
    parts_.push_back(std::move(part));
}

void Printout::figures(std::string kind, std::vector<Figure> figures) {
    add_figures(std::move(kind), Form::figures, std::move(figures));
}

void Printout::sum(std::string kind, std::vector<Figure> figures) {
    add_figures(std::move(kind), Form::sum, std::move(figures));
}

void Printout::append(Printout more) {
    for (Part& part : more.parts_) parts_.push_back(std::move(part));
}

namespace {

// Returns the number that `value` holds.
double number_of(const Value& value) {
    const i64* whole = std::get_if<i64>(&value);
    return whole ? static_cast<double>(*whole) : std::get<double>(value);
}

}  // namespace

std::string Printout::text_of_rows(const Part& part, size_t width) {
    TextTable table{.lines = {}, .left = {}, .n_keys = part.n_keys, .best_first = part.best_first};
    auto& headings = table.lines.emplace_back();
    for (const Column& column : part.columns) headings.push_back(column.heading);
    for (const std::vector<Value>& row : part.rows) {
        std::vector<std::string> cells;
        table.left.clear();
        for (size_t i = 0; i < row.size(); ++i) {
            table.left.push_back(i == 0 || is_words(row[i]));
            cells.push_back(text_of(part.columns[i].unit, row[i]));
        }
        table.lines.push_back(std::move(cells));
    }
    return text_of_table(table, width);
}

std::string Printout::text_of_figures(const Part& part, size_t width) {
    TextTable table{.lines = {}, .left = {true, false, false}};
    for (size_t i = 0; i < part.columns.size(); ++i) {
        const Column& column = part.columns[i];
        const Value& value = part.rows[0][i];
        std::string text = text_of(column.unit, value);
        if (column.unit == Unit::flags) {
            text = wrapped_flags(text, column.heading.size() + 1, width);
            return fmt::format("{} {}\n", column.heading, text);
        }
        table.lines.push_back({column.heading, std::move(text)});
        if (part.form != Form::sum) continue;
        table.lines.back().push_back(
            fmt::format("{:.1f} %", 100 * number_of(value) / number_of(part.rows[0].back())));
    }
    return text_of_table(table, 0);
}

std::string Printout::as_text(bool explain) const {
    const auto width = static_cast<size_t>(cli::terminal_width(STDOUT_FILENO, 0));
    std::string text;
    for (const Part& part : parts_) {
        if (!text.empty()) text += "\n";
        text += part.form == Form::table ? text_of_rows(part, width) : text_of_figures(part, width);
    }
    if (!explain) return text;
    text += "\nHow:\n";
    for (const Part& part : parts_) {
        for (const Column& column : part.columns) {
            if (column.formula.empty()) continue;
            text += formula_line(column.heading, column.formula, width);
        }
    }
    return text;
}

std::string Printout::as_json(bool explain) const {
    std::string text;
    for (const Part& part : parts_) {
        for (const std::vector<Value>& row : part.rows) {
            io::OrderedJson line;
            line["kind"] = part.kind;
            for (size_t i = 0; i < row.size(); ++i) line[part.columns[i].key] = json_of(row[i]);
            text += io::json_line(line);
        }
    }
    if (!explain) return text;
    io::OrderedJson formulas;
    formulas["kind"] = "formulas";
    for (const Part& part : parts_) {
        for (const Column& column : part.columns) {
            if (!column.formula.empty()) formulas[part.kind + "." + column.key] = column.formula;
        }
    }
    return text + io::json_line(formulas);
}

void Printout::print(const OutputFlags& flags) const {
    cli::write_stdout(flags.json ? as_json(flags.explain) : as_text(flags.explain));
}

}  // namespace lm::estimate
