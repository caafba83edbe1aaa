// SPDX-License-Identifier: Apache-2.0
// The output of every verb: tables and single figures, as text or as JSON Lines in base units
// (bytes, seconds). With --explain it includes the formula of each figure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/types.hpp"
#include "cli/options.hpp"

namespace lm::estimate {

// difference: the ratio to the exact value, minus one. share: a fraction of the whole. flags: a
// command's flags, the only figure of its part; a shell accepts the printed lines.
enum class Unit { count, bytes, seconds, difference, share, plain, flags };
using Value = std::variant<i64, double, bool, std::string, std::vector<i64>>;

struct Figure {
    std::string key;    // name in JSON
    std::string label;  // name in text
    Unit unit = Unit::count;
    Value value;
    std::string formula;  // formula and its source
};

using Figures = std::vector<Figure>;
void add_count(Figures& figures, const char* key, const char* label, i64 value,
               std::string formula = "");
void add_seconds(Figures& figures, const char* key, const char* label, double value,
                 std::string formula = "");

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

class Printout {
  public:
    // Adds a table, which `kind` names. The JSON output has one line for each row. In the text
    // output, a table that is wider than the terminal is divided into blocks, and each block
    // repeats the first `n_keys` columns. With `best_first`, the first row is green on a terminal.
    void table(std::string kind, std::vector<Column> columns, std::vector<std::vector<Value>> rows,
               size_t n_keys = 1, bool best_first = false);
    // Adds single figures. The JSON output has one line with all of them.
    void figures(std::string kind, std::vector<Figure> figures);
    // Adds single figures; the last one is the sum of the others. The text output shows the share
    // of each figure in the sum.
    void sum(std::string kind, std::vector<Figure> figures);
    // Adds the tables and figures of `more`.
    void append(Printout more);
    // Prints everything to standard output.
    void print(const OutputFlags& flags) const;

  private:
    enum class Form { table, figures, sum };
    struct Part {
        std::string kind;
        Form form;
        std::vector<Column> columns;
        std::vector<std::vector<Value>> rows;
        size_t n_keys = 1;
        bool best_first = false;
    };
    void add_figures(std::string kind, Form form, std::vector<Figure> figures);
    static std::string text_of_rows(const Part& part, size_t width);
    static std::string text_of_figures(const Part& part, size_t width);
    std::string as_text(bool explain) const;
    std::string as_json(bool explain) const;

    std::vector<Part> parts_;
};

// Returns `value` with separators: "124,439,808".
std::string with_separators(i64 value);

}  // namespace lm::estimate
