// SPDX-License-Identifier: Apache-2.0
// What an Options holds: its table, and what the last command line said.
#pragma once

#include <set>

#include "cli/options.hpp"

namespace lm::cli {

using Values = std::vector<std::string>;
using Apply = std::function<void(const std::string& name, const Values& values)>;

struct Options::Impl {
    struct Verb {
        Options options;
        std::function<int()> run;
    };
    std::string program;
    std::string summary;
    std::string epilogue;
    std::string group = "Options";
    std::vector<Option> table;
    std::vector<Apply> apply;  // one for each entry of the table
    std::vector<std::pair<Exit, std::string>> exit_codes;
    std::vector<std::unique_ptr<Verb>> verbs;
    std::vector<std::string> verb_names;

    // Of the last command line.
    Verb* chosen = nullptr;
    std::set<std::string> given;  // first names
    std::vector<Later> given_later;

    void add(Option option, Apply apply_values);
    void add_value(std::string_view names, std::string metavar, std::string help,
                   std::string default_text, int max_values, Apply apply_values);
    void add_positional(std::string name, std::string help, int min_values, int max_values,
                        Apply apply_values);

    // command_line.cpp
    void on_option(const Option& option, const Values& values);
    void assign_operands(const Values& operands);
    Parsed parse_verb(const Values& arguments);
    std::string verbs_text() const;
    void check_first_word(const Values& arguments) const;
    void check_no_verb_was_meant(const Values& arguments, const Values& operands,
                                 bool only_verbs) const;
};

}  // namespace lm::cli
