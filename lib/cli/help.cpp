// SPDX-License-Identifier: Apache-2.0
#include "cli/help.hpp"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "cli/option_text.hpp"
#include "cli/terminal.hpp"

namespace lm::cli {
namespace {

constexpr size_t column = 28;  // where the descriptions start

std::string label_of(const Option& option) {
    std::string label;
    for (const std::string& name : option.names) {
        if (name != option.name() && name.size() == 2) label += name + ", ";
    }
    label += option.name();
    if (!option.metavar.empty()) label += " " + option.metavar;
    if (has_dots(option)) label += "...";
    return label;
}

std::string description_of(const Option& option) {
    if (option.default_text.empty()) return option.help;
    return option.help + " (default " + option.default_text + ")";
}

std::string two_columns(const std::string& label, const std::string& description, size_t width) {
    std::string text = "  " + label;
    if (description.empty()) return text + "\n";
    if (text.size() + 2 > column) {
        text += "\n" + std::string(column, ' ');
    } else {
        text.append(column - text.size(), ' ');
    }
    bool first = true;
    for (const std::string& line : wrap(description, width - column)) {
        if (!first) text += std::string(column, ' ');
        text += line + "\n";
        first = false;
    }
    return text;
}

std::string paragraph(const std::string& content, size_t indent, size_t width) {
    std::string text;
    for (const std::string& line : wrap(content, width - indent)) {
        text += std::string(indent, ' ') + line + "\n";
    }
    return text;
}

std::string usage_of(const Options& options) {
    const bool has_verbs = !options.verbs().empty();
    const bool only_verbs = has_verbs && options.table().empty();
    std::string text;
    if (!only_verbs) {
        text = options.program() + " [OPTION]...";
        for (const Option& operand : operands_of(options)) text += " " + operand_text(operand);
    }
    if (!has_verbs) return text;
    if (!text.empty()) text += "\n       ";
    return text + options.program() + " COMMAND [OPTION]...";
}

std::string verbs_text(const Options& options, size_t width) {
    std::string text;
    for (const Options* verb : options.verbs()) {
        std::string label = verb_name(options, *verb);
        for (const Option& operand : operands_of(*verb)) label += " " + operand_text(operand);
        text += two_columns(label, verb->summary(), width);
    }
    if (text.empty()) return text;
    return "\nCommands (" + options.program() + " COMMAND --help prints its options):\n" + text;
}

std::string accepted_text(const Options& options, size_t width) {
    std::string names;
    for (const Option& option : accepted_of(options)) {
        names += (names.empty() ? "" : ", ") + option.name();
    }
    if (names.empty()) return names;
    return "\nAccepted and ignored with a note (the man page states why):\n" +
           paragraph(names, 2, width);
}

// Breaks the lines of `example` that are longer than `width` characters before an option. Each
// broken line ends in a backslash.
std::string example_lines(std::string example, size_t width) {
    constexpr std::string_view next_line = " \\\n    ";
    for (size_t begin = 0;;) {
        const size_t end = std::min(example.find('\n', begin), example.size());
        const size_t cut = example.rfind(" -", begin + width - 2);
        const bool can_cut = cut != example.npos && example.find_first_not_of(' ', begin) < cut;
        if (end - begin > width && can_cut) {
            example.replace(cut, 1, next_line);
            begin = cut + 3;
        } else if (end == example.size()) {
            return example;
        } else {
            begin = end + 1;
        }
    }
}

std::string examples_text(const Options& options, size_t width) {
    std::string text;
    for (const std::string& example : options.examples())
        text += "  " + example_lines(example, width - 2) + "\n";
    if (text.empty()) return text;
    return (options.examples().size() == 1 ? "\nExample:\n" : "\nExamples:\n") + text;
}

// Returns "--yarn-" for "--yarn-beta-fast", the start that names a family; empty for the short
// words that many options share, such as "--no-".
std::string_view family_of(std::string_view name) {
    constexpr size_t shortest = 6;
    const size_t end = name.find('-', 2);
    return end == name.npos || end < shortest ? "" : name.substr(0, end + 1);
}

// Returns the names in a list. At least three successive names of one family are its longest common
// start with a star: "--yarn-*".
std::string list_of(std::span<const std::string> names) {
    std::string text;
    for (size_t begin = 0, end = 0; begin < names.size(); begin = end) {
        const std::string_view family = family_of(names[begin]);
        end = begin + 1;
        while (!family.empty() && end < names.size() && family_of(names[end]) == family) ++end;
        if (end - begin < 3) end = begin + 1;
        std::string common = names[begin];
        for (size_t i = begin + 1; i < end; ++i) {
            const auto differ = std::ranges::mismatch(common, names[i]);
            common.erase(differ.in1, common.end());
        }
        if (end > begin + 1) common = common.substr(0, common.rfind('-') + 1) + "*";
        text += (text.empty() ? "" : ", ") + common;
    }
    return text;
}

// Returns the options of a group in two columns, then a hint to --help-all and the names of the
// options that `detail` does not describe.
std::string group_text(const std::vector<Option>& group, HelpDetail detail, size_t width) {
    std::string text;
    std::vector<std::string> named;
    for (const Option& option : group) {
        if (detail == HelpDetail::brief && option.only_named) {
            named.push_back(option.name());
        } else {
            text += two_columns(label_of(option), description_of(option), width);
        }
    }
    if (named.empty()) return text;
    return text + paragraph("More, see --help-all: " + list_of(named), 2, width);
}

}  // namespace

std::string usage_text(const Options& options) {
    constexpr size_t width = 80;
    return "Usage: " + usage_of(options) + "\n" + capitalized(options.summary()) + ".\n" +
           examples_text(options, width) + verbs_text(options, width);
}

std::string help_text(const Options& options, HelpDetail detail, int width) {
    if (width <= 0) width = std::clamp(terminal_width(STDOUT_FILENO, 80), 60, 100);
    const size_t columns = static_cast<size_t>(width);
    std::string text = "Usage: " + usage_of(options) + "\n";
    text += paragraph(capitalized(options.summary()) + ".", 0, columns);
    text += examples_text(options, columns);
    const std::vector<Option> operands = operands_of(options);
    if (!operands.empty()) text += "\n";
    for (const Option& operand : operands) {
        text += two_columns(operand.metavar, description_of(operand), columns);
    }
    text += verbs_text(options, columns);
    for (const auto& [title, group] : groups_of(options)) {
        text += "\n" + title + ":\n";
        text += group_text(group, detail, columns);
    }
    if (detail == HelpDetail::brief) return text;
    text += accepted_text(options, columns);
    for (const Options* verb : options.verbs())
        text += "\n" + help_text(*verb, HelpDetail::full, width);
    return text;
}

}  // namespace lm::cli
