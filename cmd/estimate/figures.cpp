// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "io/json.hpp"
#include "text_table.hpp"

namespace lm::estimate {
namespace {

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
