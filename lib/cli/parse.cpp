// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11, which is slow to compile. CLI11 classifies the arguments and
// counts the values of each option. This file converts values, assigns operands and writes the
// messages itself, so that the messages of all programs have the same form.
#include "cli/parse.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/nearest_name.hpp"

namespace lm::cli {
namespace {

// Returns the option names that a message may suggest: all names except those of refused options.
std::vector<std::string> all_names(const std::vector<Option>& table) {
    std::vector<std::string> names;
    for (const Option& option : table) {
        if (!option.positional && option.kind != Option::Kind::refused) {
            names.insert(names.end(), option.names.begin(), option.names.end());
        }
    }
    return names;
}

const Option* find_option(const std::vector<Option>& table, std::string_view name) {
    for (const Option& option : table) {
        if (!option.positional && std::ranges::find(option.names, name) != option.names.end()) {
            return &option;
        }
    }
    return nullptr;
}

// Replaces `--x=` by `--x` and an empty value, because CLI11 would use the argument after `--x=` as
// the value.
std::vector<std::string> split_empty_values(const std::vector<Option>& table,
                                            std::vector<std::string> arguments) {
    std::vector<std::string> result;
    for (std::string& argument : arguments) {
        const bool candidate = argument.starts_with("--") && argument.ends_with('=');
        const Option* option =
            candidate ? find_option(table, argument.substr(0, argument.size() - 1)) : nullptr;
        if (option && !option->is_flag()) {
            result.push_back(option->name());
            result.emplace_back();
        } else {
            result.push_back(std::move(argument));
        }
    }
    return result;
}

std::string missing_value(const Option& option) {
    return fmt::format("{}: needs a value ({})", option.name(), option.metavar);
}

void check_values(const std::vector<Option>& table, const Option& option,
                  const std::vector<std::string>& values) {
    if (option.is_flag()) {
        if (values != std::vector<std::string>{"true"}) {
            usage_error(option.name(), "takes no value: remove '=' and the text after it");
        }
        return;
    }
    for (const std::string& value : values) {
        if (value.starts_with('-') && find_option(table, value)) {
            throw Error(Exit::usage, missing_value(option));
        }
    }
}

void declare(CLI::App& app, const std::vector<Option>& table, const Option& option,
             const OnOption& on_option, std::vector<std::string>& problems) {
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : ",") + name;
    const auto callback = [&](const std::vector<std::string>& values) {
        try {
            check_values(table, option, values);
            on_option(option, option.is_flag() ? std::vector<std::string>{} : values);
        } catch (const Error& error) {
            if (error.code() != Exit::usage) throw;
            problems.emplace_back(error.what());
        }
        return true;
    };
    CLI::Option* declared = app.add_option(names, callback, "");
    declared->trigger_on_parse();  // one call per occurrence, in order
    declared->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (option.is_flag()) {
        declared->expected(0);
    } else if (option.min_values == option.max_values && option.max_values > 1) {
        declared->type_size(option.max_values);  // accepts values that look like options
    } else {
        declared->expected(option.min_values, option.max_values);
    }
}

bool looks_like_option(const std::string& argument) {
    return argument.size() > 1 && argument.front() == '-' &&
           !(argument[1] >= '0' && argument[1] <= '9');
}

// Returns whether the option stands for all names with one prefix, as "--x-*" does.
bool is_family(const Option& option) {
    return option.name().ends_with('*');
}

std::string unknown_option(const std::vector<Option>& table, const std::string& argument) {
    const std::string name = argument.substr(0, argument.find('='));
    for (const Option& option : table) {
        const std::string_view family = option.name();
        if (is_family(option) && name.starts_with(family.substr(0, family.size() - 1))) {
            return fmt::format("{}: {}", name, option.help);
        }
    }
    const std::string nearest = nearest_name(name, all_names(table));
    if (nearest.empty()) return name + ": unknown option";
    return fmt::format("{}: unknown option: did you mean {}?", name, nearest);
}

// Returns whether the command line may contain the option: an argument is --name or --name=value,
// or the option has a short name, for which the arguments are not checked.
bool may_be_given(const Option& option, const std::vector<std::string>& arguments) {
    return std::ranges::any_of(option.names, [&](const std::string& name) {
        if (!name.starts_with("--")) return true;
        return std::ranges::any_of(arguments, [&](const std::string& argument) {
            return argument.starts_with(name) &&
                   (argument.size() == name.size() || argument[name.size()] == '=');
        });
    });
}

// Returns the message for missing values. CLI11 reports the name of the option only in the text of
// its error: "--name: 1 required ... missing".
std::string argument_mismatch(const std::vector<Option>& table, const std::string& text) {
    const Option* option = find_option(table, text.substr(0, text.find_first_of(" :")));
    return option ? missing_value(*option) : "command line: " + text;
}

}  // namespace

std::optional<std::vector<std::string>> parse_arguments(const std::vector<Option>& table,
                                                        const std::vector<std::string>& arguments,
                                                        const OnOption& on_option,
                                                        std::vector<std::string>& problems) {
    CLI::App app;
    app.set_help_flag();
    app.allow_extras();
    // Only options that may be on the command line are declared. CLI11 compares the names of each
    // declared option with the names of all others. For the 700 options of lm-train, this takes
    // longer than the rest of the program's start.
    for (const Option& option : table) {
        if (!option.positional && !is_family(option) && may_be_given(option, arguments)) {
            declare(app, table, option, on_option, problems);
        }
    }
    const auto end_of_options = std::ranges::find(arguments, "--");
    std::vector<std::string> head = split_empty_values(table, {arguments.begin(), end_of_options});
    std::ranges::reverse(head);  // CLI11 expects the reverse order
    try {
        app.parse(std::move(head));
    } catch (const CLI::ArgumentMismatch& error) {
        problems.push_back(argument_mismatch(table, error.what()));
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        problems.push_back(fmt::format("command line: {}", error.what()));
        return std::nullopt;
    }
    std::vector<std::string> operands = app.remaining();
    bool certain = true;  // false: an operand may be the value of an unknown option
    for (const std::string& operand : operands) {
        if (!looks_like_option(operand)) continue;
        problems.push_back(unknown_option(table, operand));
        certain = false;
    }
    if (!certain) return std::nullopt;
    if (end_of_options != arguments.end()) {
        operands.insert(operands.end(), end_of_options + 1, arguments.end());
    }
    return operands;
}

}  // namespace lm::cli
