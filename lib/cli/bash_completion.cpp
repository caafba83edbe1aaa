// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/option_text.hpp"

namespace lm::cli {
namespace {

std::string names_of(const Options& options) {
    std::string text;
    for (const Option& option : shown_options(options)) {
        text += (text.empty() ? "" : " ") + option.name();
    }
    return text;
}

std::string_view kind_name(CompletedValue value) {
    using enum CompletedValue;
    switch (value) {
        case files:
            return "files";
        case pairs:
            return "pairs";
        case steps:
            return "steps";
        case none:
        case words:
            break;
    }
    return "words";
}

// Returns the shell assignments that state how the shell completes the value of an option.
std::string kind_of(const Option& option) {
    const std::string kind = fmt::format("kind={}", kind_name(completed_value(option)));
    const std::vector<std::string>& words = completed_words(option);
    return words.empty() ? kind : fmt::format("words='{}'; {}", fmt::join(words, " "), kind);
}

// Returns the branches of the shell's `case "$verb $previous" in`: one for each option that takes a
// value, with the assignments of kind_of().
std::string value_cases(const Options& options, const std::string& verb) {
    std::string text;
    for (const Option& option : shown_options(options)) {
        if (option.is_flag()) continue;
        std::string patterns;
        for (const std::string& name : option.names) {
            patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", verb, name);
        }
        text += fmt::format("    {}) {} ;;\n", patterns, kind_of(option));
    }
    return text;
}

// Returns the names of the options that take several values, each between spaces.
std::string several_of(const Options& options) {
    std::string text = " ";
    for (const Option& option : shown_options(options)) {
        if (option.max_values < 2) continue;
        for (const std::string& name : option.names) text += name + " ";
    }
    return text;
}

// Shell code that completes the second and further values of an option in the same way as the first
// value.
constexpr const char* further_value = R"(    for ((i = COMP_CWORD - 1; i > 0; --i)); do
        [[ ${COMP_WORDS[i]} == -* ]] || continue
        [[ $current == -* || $several != *" ${COMP_WORDS[i]} "* ]] || previous=${COMP_WORDS[i]}
        break
    done
)";

constexpr const char* tail = R"(    esac
    if [ "$kind" = none ]; then
        if [[ $current == -* ]]; then
            kind=words; words=$options
        elif [ "$COMP_CWORD" = 1 ] && [ -n "$verbs" ]; then
            kind=words; words=$verbs
        else
            kind=$operands
        fi
    fi
    if [ "$kind" = steps ] && [ "$COMP_CWORD" -gt 2 ]; then
        kind=words
        words=$(cd -- "${COMP_WORDS[2]/#\~/$HOME}" 2>/dev/null && echo global_step[0-9]*)
        words=${words//global_step/}
        [ "$words" != '[0-9]*' ] || words=
    fi
    if [ "$kind" = words ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [ "$kind" = pairs ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current"; compgen -f -X '!*.idx' -- "$current")
        COMPREPLY=("${COMPREPLY[@]%.idx}")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
)";

}  // namespace

std::string bash_completion(const Options& options) {
    std::string function = "_" + options.program();
    std::ranges::replace(function, '-', '_');
    std::string verb_names;
    std::string option_cases;
    std::string cases = value_cases(options, "");
    for (const Options* verb : options.verbs()) {
        const std::string name = verb_name(options, *verb);
        verb_names += (verb_names.empty() ? "" : " ") + name;
        option_cases +=
            fmt::format("    {}) verb={}; options='{}'; several='{}'; operands={} ;;\n", name, name,
                        names_of(*verb), several_of(*verb), kind_name(completed_operand(*verb)));
        cases += value_cases(*verb, name);
    }
    return fmt::format(
               "# bash completion of {0}, generated from its option table\n"
               "{1}() {{\n"
               "    local current=${{COMP_WORDS[COMP_CWORD]}} "
               "previous=${{COMP_WORDS[COMP_CWORD-1]}} i\n"
               "    local verb= words= kind=none verbs='{2}' options='{3}' several='{4}' "
               "operands={5}\n"
               "    if [ \"$current\" = = ]; then\n"
               "        current=\n"
               "    elif [ \"$previous\" = = ]; then\n"
               "        previous=${{COMP_WORDS[COMP_CWORD-2]}}\n"
               "    fi\n"
               "    case ${{COMP_WORDS[1]}} in\n{6}    esac\n",
               options.program(), function, verb_names, names_of(options), several_of(options),
               kind_name(completed_operand(options)), option_cases) +
           further_value + fmt::format("    case \"$verb $previous\" in\n{}", cases) + tail +
           fmt::format("complete -F {} {}\n", function, options.program());
}

}  // namespace lm::cli
