// SPDX-License-Identifier: Apache-2.0
// The script has one `complete` command for each option; see complete(1) of fish.
#include <fmt/ranges.h>

#include "cli/completion.hpp"
#include "cli/option_text.hpp"

namespace lm::cli {
namespace {

// Returns `text` within single quotes of fish, in which only \ and ' are special.
std::string fish_quoted(std::string_view text) {
    std::string result = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') result += '\\';
        result += c;
    }
    return result + "'";
}

constexpr const char* pairs =
    R"((set -l f (commandline -ct)*.idx; string replace -r '\.idx$' '' -- $f) )"
    "(__fish_complete_directories)";
constexpr const char* steps =
    R"((set -l d (commandline -opc)[3]/global_step*; string replace -f -r '.*step' '' -- $d) )"
    "(test (count (commandline -opc)) -lt 3; and __fish_complete_directories)";

std::string value_of(const Option& option) {
    if (option.is_flag()) return "";
    using enum CompletedValue;
    switch (completed_value(option)) {
        case words:
            return fmt::format(" -x -a {}", fish_quoted(fmt::format(
                                                "{}", fmt::join(completed_words(option), " "))));
        case files:
            return " -r -F";
        case CompletedValue::pairs:
            return fmt::format(" -x -a {}", fish_quoted(cli::pairs));
        case none:
        case CompletedValue::steps:
            break;
    }
    return " -x";
}

// Returns the `complete` commands for the options and operands of a command of the program.
// `condition`: "" or " -n '...'".
std::string commands_of(const Options& options, const std::string& program,
                        const std::string& condition) {
    const std::string begin = "complete -c " + program + condition;
    std::string text;
    for (const Option& option : shown_options(options)) {
        text += begin;
        for (const std::string& name : option.names) {
            const bool is_short = name.size() == 2;
            text += fmt::format(" -{} {}", is_short ? 's' : 'l', name.substr(is_short ? 1 : 2));
        }
        text += value_of(option) + " -d " + fish_quoted(option.help) + "\n";
    }
    if (operands_of(options).empty()) return text + begin + " -f\n";
    using enum CompletedValue;
    switch (completed_operand(options)) {
        case CompletedValue::steps:
            return text + begin + " -f -a " + fish_quoted(cli::steps) + "\n";
        case CompletedValue::pairs:
            return text + begin + " -f -a " + fish_quoted(cli::pairs) + "\n";
        case none:
        case words:
        case files:
            break;
    }
    return text;
}

}  // namespace

std::string fish_completion(const Options& options) {
    const std::string& program = options.program();
    std::string text =
        fmt::format("# fish completion of {}, generated from its option table\n", program);
    for (const Options* verb : options.verbs()) {
        text += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program,
                            verb_name(options, *verb), fish_quoted(verb->summary()));
    }
    const bool has_verbs = !options.verbs().empty();
    text += commands_of(options, program, has_verbs ? " -n __fish_use_subcommand" : "");
    for (const Options* verb : options.verbs()) {
        text += commands_of(
            *verb, program,
            fmt::format(" -n '__fish_seen_subcommand_from {}'", verb_name(options, *verb)));
    }
    return text;
}

}  // namespace lm::cli
