// SPDX-License-Identifier: Apache-2.0
#include "cli/first_word.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/nearest_name.hpp"
#include "io/file.hpp"

namespace lm::cli {
namespace {

// Returns whether the word looks like a path, or is the prefix of a dataset (word.idx exists).
bool may_be_path(const std::string& word) {
    return word.find_first_of("./") != word.npos || io::exists(word) || io::exists(word + ".idx");
}

}  // namespace

std::string commands_text(const Commands& commands) {
    const auto usual = std::ranges::find_if(commands.options, &Option::is_usual);
    const std::string option =
        usual == commands.options.end() ? "" : usual->name() + " without a command, or ";
    return fmt::format("use {}one of {}", option, fmt::join(commands.names, ", "));
}

void refuse_near_command(const std::string& word, const Commands& commands) {
    std::string meant = nearest_name(word, commands.names);
    for (const auto& [other, name] : commands.other_words) {
        if (word == other) meant = name;
    }
    if (!meant.empty()) usage_error(word, "unknown command: did you mean {}?", meant);
}

void check_first_word(const std::string& word, const Commands& commands) {
    if (commands.names.empty() || word.empty() || word.starts_with('-')) return;
    if (std::ranges::any_of(commands.options, &Option::positional)) return;
    refuse_near_command(word, commands);
    if (may_be_path(word)) {
        const std::string meant = meant_option(word, commands.options);
        if (!meant.empty()) usage_error(word, "unknown command: did you mean {}?", meant);
        usage_error(word, "a path is not a command: write one of {} before the path",
                    fmt::join(commands.names, ", "));
    }
    usage_error(word, "unknown command: {}", commands_text(commands));
}

std::string meant_option(const std::string& operand, const std::vector<Option>& options) {
    const auto has = [&](const std::vector<std::string>& values) {
        return std::ranges::find(values, operand) != values.end();
    };
    for (const Option& option : options) {
        if (has(option.choices) || has(option.words)) return option.name() + " " + operand;
    }
    if (!may_be_path(operand)) return "";
    for (const Option& option : options) {
        if (option.is_usual) return option.name() + " " + operand;
    }
    return "";
}

}  // namespace lm::cli
