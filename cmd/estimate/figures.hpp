// SPDX-License-Identifier: Apache-2.0
// What every verb prints: tables and single figures, as text for people or as JSON Lines in base
// units, each figure with the formula behind it for --explain.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/types.hpp"
#include "cli/options.hpp"

namespace lm::estimate {

// difference: a ratio to what it should be, less one. share: a part of one.
enum class Unit { count, bytes, seconds, difference, share, plain };
using Value = std::variant<i64, double, bool, std::string, std::vector<i64>>;

struct Figure {
    std::string key;    // in JSON
    std::string label;  // in text
    Unit unit = Unit::count;
    Value value;
    std::string formula;  // with its source
};

struct Column {
    std::string key;
    std::string heading;
    Unit unit = Unit::count;
    std::string formula;
};

struct OutputFlags {
    bool json = false;
    bool explain = false;
};
void add_output_options(cli::Options& options, OutputFlags& flags);

class Report {
  public:
    // One line of JSON for each row, with `kind` naming the table.
    void table(std::string kind, std::vector<Column> columns, std::vector<std::vector<Value>> rows);
    // One line of JSON for all figures together.
    void figures(std::string kind, std::vector<Figure> figures);
    // The same, where the last figure is the sum of the others: text shows each one's share.
    void sum(std::string kind, std::vector<Figure> figures);
    // To standard output.
    void print(const OutputFlags& flags) const;

  private:
    enum class Form { table, figures, sum };
    struct Part {
        std::string kind;
        Form form;
        std::vector<Column> columns;
        std::vector<std::vector<Value>> rows;
    };
    void add_figures(std::string kind, Form form, std::vector<Figure> figures);
    static std::string text_of_part(const Part& part);
    std::string as_text(bool explain) const;
    std::string as_json(bool explain) const;

    std::vector<Part> parts_;
};

std::string with_separators(i64 value);  // 124,439,808

}  // namespace lm::estimate
