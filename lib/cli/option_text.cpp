// SPDX-License-Identifier: Apache-2.0
#include "cli/option_text.hpp"

#include <algorithm>

namespace lm::cli {
namespace {

std::vector<Option> select(const Options& options, bool (*wanted)(const Option&)) {
    std::vector<Option> result;
    std::ranges::copy_if(options.table(), std::back_inserter(result), wanted);
    return result;
}

// Returns whether --help-all prints more than --help: the options of verbs, or descriptions that
// --help omits.
bool has_more_help(const Options& options) {
    return !options.verbs().empty() ||
           std::ranges::any_of(options.table(), [](const Option& option) {
               return !option.hidden &&
                      (option.only_named || option.kind == Option::Kind::accepted);
           });
}

Option built_in(std::vector<std::string> names, std::string help) {
    Option option;
    option.names = std::move(names);
    option.help = std::move(help);
    option.group = "Help";
    return option;
}

}  // namespace

std::vector<std::pair<std::string, std::vector<Option>>> groups_of(const Options& options) {
    std::vector<Option> shown = select(options, [](const Option& option) {
        return !option.positional && !option.hidden && option.kind == Option::Kind::normal;
    });
    shown.push_back(built_in({"--help", "-h"}, "print this help and exit"));
    if (has_more_help(options))
        shown.push_back(built_in({"--help-all"}, "describe all options and exit"));
    shown.push_back(built_in({"--version"}, "print the version and exit"));
    std::vector<std::pair<std::string, std::vector<Option>>> groups;
    for (Option& option : shown) {
        const auto known = std::ranges::find_if(
            groups, [&option](const auto& entry) { return entry.first == option.group; });
        if (known != groups.end()) {
            known->second.push_back(std::move(option));
        } else {
            groups.emplace_back(option.group, std::vector<Option>{option});
        }
    }
    return groups;
}

std::vector<Option> shown_options(const Options& options) {
    std::vector<Option> result;
    for (auto& [title, group] : groups_of(options))
        result.insert(result.end(), group.begin(), group.end());
    return result;
}

const std::vector<std::string>& completed_words(const Option& option) {
    return option.choices.empty() ? option.words : option.choices;
}

CompletedValue completed_value(const Option& option) {
    constexpr std::string_view files[] = {"FILE", "DIR", "PATH", "CKPT", "OUT",
                                          "SRC",  "DST", "LOG",  "DUMPS"};
    if (!completed_words(option).empty()) return CompletedValue::words;
    if (!option.is_text) return CompletedValue::none;
    const auto in_metavar = [&](std::string_view word) {
        return option.metavar.find(word) != std::string::npos;
    };
    // The dataset of an output prefix does not exist yet.
    const bool is_output = option.name().starts_with("--output");
    if (in_metavar("PREFIX")) return is_output ? CompletedValue::files : CompletedValue::pairs;
    return std::ranges::any_of(files, in_metavar) ? CompletedValue::files : CompletedValue::none;
}

CompletedValue completed_operand(const Options& options) {
    const std::vector<Option> operands = operands_of(options);
    if (operands.size() > 1 && operands[1].metavar == "STEP") return CompletedValue::steps;
    const bool pairs = !operands.empty() && operands[0].metavar == "PREFIX";
    return pairs ? CompletedValue::pairs : CompletedValue::files;
}

std::string verb_name(const Options& options, const Options& verb) {
    return verb.program().substr(options.program().size() + 1);
}

std::vector<Option> operands_of(const Options& options) {
    return select(options, [](const Option& option) { return option.positional; });
}

std::vector<Option> accepted_of(const Options& options) {
    return select(options, [](const Option& option) {
        return option.kind == Option::Kind::accepted && !option.hidden;
    });
}

bool has_dots(const Option& option) {
    return option.repeatable && option.metavar.find_first_of(" .") == std::string::npos;
}

std::string operand_text(const Option& operand) {
    const std::string text = operand.metavar + (has_dots(operand) ? "..." : "");
    return operand.min_values == 0 ? "[" + text + "]" : text;
}

std::string capitalized(std::string text) {
    std::string_view word = std::string_view(text).substr(0, text.find(' '));
    if (word.ends_with('.')) word.remove_suffix(1);
    const bool is_name = word.find_first_of("._0123456789") != std::string_view::npos;
    if (!is_name && !word.empty() && word[0] >= 'a' && word[0] <= 'z')
        text[0] = static_cast<char>(text[0] - 32);
    return text;
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
    std::vector<std::string> lines;
    std::string line;
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (word.empty()) continue;
        if (!line.empty() && line.size() + 1 + word.size() > width) {
            lines.push_back(std::move(line));
            line.clear();
        }
        if (!line.empty()) line += ' ';
        line += word;
    }
    if (!line.empty()) lines.push_back(std::move(line));
    return lines;
}

}  // namespace lm::cli
