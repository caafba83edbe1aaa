// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/option_text.hpp"

namespace lm::cli {
namespace {

bool is_file(const std::string& metavar) {
    constexpr std::string_view words[] = {"FILE", "DIR", "PATH", "PREFIX", "CKPT",     "IN",
                                          "OUT",  "SRC", "DST",  "LOG",    "P",        "A",
                                          "B",    "V",   "M",    "CONFIG", "TOKENIZER"};
    return std::ranges::any_of(words, [&metavar](std::string_view word) {
        return metavar == word || (word.size() > 1 && metavar.find(word) != std::string::npos);
    });
}

std::vector<Option> completed_options(const Options& options) {
    std::vector<Option> result;
    for (auto& [title, group] : groups_of(options))
        result.insert(result.end(), group.begin(), group.end());
    return result;
}

std::string names_of(const Options& options) {
    std::string text;
    for (const Option& option : completed_options(options)) {
        text += (text.empty() ? "" : " ") + option.name();
    }
    return text;
}

// Returns the shell assignments that state how the value of an option is completed: as one of some
// words, as the prefix of a .bin and .idx pair, or as a file name.
std::string kind_of(const Option& option) {
    const std::vector<std::string>& words = option.choices.empty() ? option.words : option.choices;
    if (!words.empty()) return fmt::format("words='{}'; kind=words", fmt::join(words, " "));
    if (option.metavar.find("PREFIX") != std::string::npos) return "kind=pairs";
    return is_file(option.metavar) ? "kind=files" : "kind=words";
}

// Returns the branches of the shell's `case "$verb $previous" in`: one for each option that takes a
// value, with the assignments of kind_of().
std::string value_cases(const Options& options, const std::string& verb) {
    std::string text;
    for (const Option& option : completed_options(options)) {
        if (option.is_flag()) continue;
        std::string patterns;
        for (const std::string& name : option.names) {
            patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", verb, name);
        }
        text += fmt::format("    {}) {} ;;\n", patterns, kind_of(option));
    }
    return text;
}

// Returns the options that take several values.
std::string several_of(const Options& options) {
    std::string text = " ";
    for (const Option& option : completed_options(options)) {
        if (option.max_values < 2) continue;
        for (const std::string& name : option.names) text += name + " ";
    }
    return text;
}

// Returns how operands are completed: as prefixes of .bin and .idx pairs if the first operand has
// the metavar P, else as file names.
std::string operand_kind(const Options& options) {
    const std::vector<Option> operands = operands_of(options);
    return !operands.empty() && operands[0].metavar == "P" ? "pairs" : "files";
}

// Shell code that completes the second and further values of an option like the first one.
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
        const std::string name = verb->program().substr(options.program().size() + 1);
        verb_names += (verb_names.empty() ? "" : " ") + name;
        option_cases +=
            fmt::format("    {}) verb={}; options='{}'; several='{}'; operands={} ;;\n", name, name,
                        names_of(*verb), several_of(*verb), operand_kind(*verb));
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
               operand_kind(options), option_cases) +
           further_value + fmt::format("    case \"$verb $previous\" in\n{}", cases) + tail +
           fmt::format("complete -F {} {}\n", function, options.program());
}

}  // namespace lm::cli
