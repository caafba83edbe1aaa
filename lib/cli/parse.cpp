// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11, which is slow to compile. CLI11 classifies the arguments and
// counts the values of each option. This file converts values, assigns operands and writes the
// messages itself, so that the messages of all programs have the same form.
#include "cli/parse.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.hpp"

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

bool same_letter(unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
}

// Returns the number of insertions, deletions, replacements and swaps of adjacent characters
// between two names (optimal string alignment distance). Ignores the difference between capital and
// small letters.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = d[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

// Returns the only name of `known` for which matches() is true; "" when it is true for none or for
// several.
template <typename Matches>
std::string only_name(const std::vector<std::string>& known, Matches matches) {
    if (std::ranges::count_if(known, matches) != 1) return "";
    return *std::ranges::find_if(known, matches);
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
    const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
    const size_t letters = name.size() - dashes;
    if (letters < 2) return "";
    std::string best;
    size_t best_distance = std::max<size_t>(1, letters / 4) + 1;
    for (const std::string& candidate : known) {
        const size_t distance = edit_distance(name, candidate);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    if (!best.empty() || letters < 3) return best;
    const auto longer = std::ranges::find_if(known, [&](const std::string& candidate) {
        return candidate.starts_with(name) && candidate.size() - dashes <= 2 * letters;
    });
    if (longer != known.end()) return *longer;
    if (letters < 4) return "";
    // Finds "--temperature" for "--temp", and "hf-gpt2" for "gpt2".
    const auto is_word = [](std::string_view rest) { return rest.find('-') == rest.npos; };
    const std::string start = only_name(known, [&](std::string_view candidate) {
        return candidate.starts_with(name) && is_word(candidate.substr(name.size()));
    });
    if (!start.empty()) return start;
    const std::string end = fmt::format("-{}", name.substr(dashes));
    return only_name(known, [&](std::string_view candidate) {
        return candidate.size() > dashes + end.size() && candidate.ends_with(end) &&
               is_word(candidate.substr(dashes, candidate.size() - dashes - end.size()));
    });
}

void refuse_value(std::string_view option, std::string_view value,
                  const std::vector<std::string>& choices) {
    const std::string nearest = nearest_name(value, choices);
    usage_error(option, "'{}' is not one of {}{}", value, fmt::join(choices, ", "),
                nearest.empty() ? "" : ": did you mean " + nearest + "?");
}

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
