// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11, which is slow to compile. CLI11 classifies the arguments and
// counts the values of each option. This file converts values, assigns operands and writes the
// messages itself, so that the messages of all programs have the same form.
#include "cli/parse.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"

namespace lm::cli {

bool same_value(const std::string& a, const std::string& b) {
    double x = 0;
    double y = 0;
    const auto is_number = [](const std::string& text, double& number) {
        const char* const end = text.data() + text.size();
        return std::from_chars(text.data(), end, number) == std::from_chars_result{end, {}};
    };
    return a == b || (is_number(a, x) && is_number(b, y) && x == y);
}

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

// Stands for the value of an option that has none, so that the option keeps its place in the order
// of the problems. No argument of a process contains this byte followed by a newline by accident.
constexpr std::string_view no_value = "\x1e\n";

// Completes the values of the options. Replaces `--x=` by `--x` and an empty value, because CLI11
// would use the argument after `--x=` as the value. Adds `no_value` after an option whose value is
// missing: the command line ends, or the next argument begins with "--", as in a script with an
// unset variable.
std::vector<std::string> complete_values(const std::vector<Option>& table,
                                         std::vector<std::string> arguments) {
    std::vector<std::string> result;
    for (size_t i = 0; i < arguments.size(); ++i) {
        std::string& argument = arguments[i];
        const bool ends_with_equals = argument.starts_with("--") && argument.ends_with('=');
        if (ends_with_equals) {
            const Option* option = find_option(table, argument.substr(0, argument.size() - 1));
            if (option && !option->is_flag()) {
                result.push_back(option->name());
                result.emplace_back();
                continue;
            }
        }
        const Option* const option = find_option(table, argument);
        const bool last = i + 1 == arguments.size() || arguments[i + 1].starts_with("--");
        result.push_back(std::move(argument));
        if (option && option->min_values > 0 && last) result.emplace_back(no_value);
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
        if (value == no_value || (value.starts_with('-') && find_option(table, value))) {
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
    option.is_flag() ? declared->expected(0)
                     : declared->expected(option.min_values, option.max_values);
}

bool looks_like_option(const std::string& argument) {
    return argument.size() > 1 && argument.front() == '-' &&
           !(argument[1] >= '0' && argument[1] <= '9');
}

// Returns whether the option stands for all names with one prefix, as "--x-*" does.
bool is_family(const Option& option) {
    return option.name().ends_with('*');
}

// Returns the option `name` of the table, or the family that it belongs to; nullptr when there is
// none.
const Option* option_or_family(const std::vector<Option>& table, const std::string& name) {
    if (const Option* option = find_option(table, name)) return option;
    for (const Option& option : table) {
        const std::string_view family = option.name();
        if (is_family(option) && name.starts_with(family.substr(0, family.size() - 1)))
            return &option;
    }
    return nullptr;
}

std::string unknown_option(const std::vector<Option>& table, const std::string& argument) {
    const std::string name = argument.substr(0, argument.find('='));
    const Option* const family = option_or_family(table, name);
    if (family != nullptr) return fmt::format("{}: {}", name, family->help);
    const std::string nearest = nearest_name(name, all_names(table));
    if (nearest.empty()) return name + ": unknown option";
    return fmt::format("{}: unknown option: did you mean {}?", name, nearest);
}

// Returns whether the arguments give the option `name` at least one value, and no value other than
// its neutral one.
bool is_neutral(const std::vector<Option>& table, const std::vector<std::string>& arguments,
                const std::string& name) {
    const Option* const option = find_option(table, name);
    if (option == nullptr) return false;
    bool given = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].starts_with(name + "=")) {
            if (!same_value(arguments[i].substr(name.size() + 1), option->neutral_value))
                return false;
            given = true;
        }
        if (arguments[i] != name) continue;
        for (++i; i < arguments.size() && !looks_like_option(arguments[i]); ++i) {
            if (!same_value(arguments[i], option->neutral_value)) return false;
            given = true;
        }
        --i;
    }
    return given;
}

// Returns the arguments without the options that are harmless beside another one
// (Option::harmless_with), and without their values. Prints a note for each.
std::vector<std::string> without_harmless(const std::vector<Option>& table,
                                          const std::vector<std::string>& arguments) {
    std::vector<std::string> kept;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string name = arguments[i].substr(0, arguments[i].find('='));
        const Option* const option =
            name.starts_with("--") ? option_or_family(table, name) : nullptr;
        if (option == nullptr || option->harmless_with.empty() ||
            !is_neutral(table, arguments, option->harmless_with)) {
            kept.push_back(arguments[i]);
            continue;
        }
        note("{}: ignored: it has no effect with {} {}", name, option->harmless_with,
             find_option(table, option->harmless_with)->neutral_value);
        while (i + 1 < arguments.size() && !looks_like_option(arguments[i + 1])) ++i;
    }
    return kept;
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
    std::vector<std::string> head =
        complete_values(table, without_harmless(table, {arguments.begin(), end_of_options}));
    std::ranges::reverse(head);  // CLI11 expects the reverse order
    try {
        app.parse(std::move(head));
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
