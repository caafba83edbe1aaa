// SPDX-License-Identifier: Apache-2.0
// See zshcompsys(1): a specification of _arguments is 'NAME[HELP]:METAVAR:ACTION'.
#include <fmt/ranges.h>

#include "cli/completion.hpp"
#include "cli/option_text.hpp"

namespace lm::cli {
namespace {

// Returns `text` for use within single quotes, with a backslash before each character of `special`.
std::string escaped(std::string_view text, std::string_view special) {
    std::string result;
    for (const char c : text) {
        if (special.find(c) != special.npos) result += '\\';
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return result;
}

std::string action_of(const Option& option) {
    using enum CompletedValue;
    switch (completed_value(option)) {
        case words:
            return fmt::format("({})", fmt::join(completed_words(option), " "));
        case files:
            return "_files";
        case pairs:
            return "_lm_pairs";
        case none:
        case steps:
            break;
    }
    return " ";
}

// Returns the specifications of the options of a command and of its operands.
std::string specifications(const Options& options) {
    std::string text;
    for (const Option& option : shown_options(options)) {
        for (const std::string& name : option.names) {
            const std::string shown = name + (option.is_flag() || name.size() == 2 ? "" : "=");
            const std::string many = option.repeatable ? "*" : "";
            text +=
                fmt::format(" \\\n        '{}{}[{}]", many, shown, escaped(option.help, "[]\\"));
            if (!option.is_flag()) {
                text += fmt::format(":{}:{}", escaped(option.metavar, ":\\"), action_of(option));
            }
            text += "'";
        }
    }
    if (operands_of(options).empty()) return text;
    using enum CompletedValue;
    switch (completed_operand(options)) {
        case steps:
            return text + " \\\n        '1:directory:_files -/' '2:step:_lm_steps'";
        case pairs:
            return text + " \\\n        '*:prefix:_lm_pairs'";
        case none:
        case words:
        case files:
            break;
    }
    return text + " \\\n        '*:file:_files'";
}

constexpr const char* helpers = R"(
_lm_pairs() {
    local -a pairs
    pairs=(${~PREFIX}*.idx(N:r))
    compadd -f -- $pairs
    _path_files -/
}
_lm_steps() {
    local -a steps
    steps=(${~words[2]}/global_step<->(N:t))
    compadd -- ${steps#global_step}
}
)";

}  // namespace

std::string zsh_completion(const Options& options) {
    std::string cases;
    std::string commands;
    for (const Options* verb : options.verbs()) {
        const std::string name = verb_name(options, *verb);
        commands += fmt::format("        '{}:{}'\n", name, escaped(verb->summary(), ":\\"));
        cases += fmt::format("    {})\n        _arguments -S{}\n        ;;\n", name,
                             specifications(*verb));
    }
    std::string text =
        fmt::format("#compdef {0}\n# zsh completion of {0}, generated from its option table\n{1}\n",
                    options.program(), helpers);
    if (!cases.empty()) {
        text += fmt::format(
            "if (( CURRENT > 2 )); then\n    shift words\n    (( CURRENT-- ))\n"
            "    case $words[1] in\n{}    *)\n        _arguments -S{}\n        ;;\n    esac\n"
            "    return\nfi\nlocal -a commands\ncommands=(\n{})\n"
            "_describe -t commands command commands\n",
            cases, specifications(options), commands);
    }
    return text + fmt::format("_arguments -S{}\n", specifications(options));
}

}  // namespace lm::cli
