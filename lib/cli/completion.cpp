// SPDX-License-Identifier: Apache-2.0
// The bash completion of a program: a function over arrays that are written from the option table.
// Verbs complete as first word, then options of the verb, choices and file names.
#include <algorithm>

#include <fmt/format.h>

#include "cli/layout.hpp"
#include "cli/options.hpp"

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

// case "$verb $previous": the values that may follow an option.
std::string value_cases(const Options& options, const std::string& verb) {
    std::string text;
    for (const Option& option : completed_options(options)) {
        if (option.is_flag() || is_file(option.metavar)) continue;
        std::string choices;
        for (const std::string& choice : option.choices) choices += " " + choice;
        std::string patterns;
        for (const std::string& name : option.names) {
            patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", verb, name);
        }
        text += fmt::format("    {}) words='{}'; kind=words ;;\n", patterns,
                            choices.empty() ? "" : choices.substr(1));
    }
    return text;
}

std::string file_cases(const Options& options, const std::string& verb) {
    std::string patterns;
    for (const Option& option : completed_options(options)) {
        if (option.is_flag() || !is_file(option.metavar)) continue;
        for (const std::string& name : option.names) {
            patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", verb, name);
        }
    }
    return patterns.empty() ? "" : fmt::format("    {}) kind=files ;;\n", patterns);
}

constexpr const char* tail = R"(    esac
    if [ "$kind" = none ]; then
        if [[ $current == -* ]]; then
            kind=words; words=$options
        elif [ "$COMP_CWORD" = 1 ] && [ -n "$verbs" ]; then
            kind=words; words=$verbs
        else
            kind=files
        fi
    fi
    if [ "$kind" = words ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
)";

}  // namespace

std::string Options::bash_completion() const {
    std::string function = "_" + program();
    std::ranges::replace(function, '-', '_');
    std::string verb_names;
    std::string option_cases;
    std::string cases = value_cases(*this, "") + file_cases(*this, "");
    for (const Options* verb : verbs()) {
        const std::string name = verb->program().substr(program().size() + 1);
        verb_names += (verb_names.empty() ? "" : " ") + name;
        option_cases +=
            fmt::format("    {}) verb={}; options='{}' ;;\n", name, name, names_of(*verb));
        cases += value_cases(*verb, name) + file_cases(*verb, name);
    }
    return fmt::format(
               "# bash completion of {0}, generated from its option table\n"
               "{1}() {{\n"
               "    local current=${{COMP_WORDS[COMP_CWORD]}} "
               "previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
               "    local verb= words= kind=none verbs='{2}' options='{3}'\n"
               "    if [ \"$current\" = = ]; then\n"
               "        current=\n"
               "    elif [ \"$previous\" = = ]; then\n"
               "        previous=${{COMP_WORDS[COMP_CWORD-2]}}\n"
               "    fi\n"
               "    case ${{COMP_WORDS[1]}} in\n{4}    esac\n"
               "    case \"$verb $previous\" in\n{5}",
               program(), function, verb_names, names_of(*this), option_cases, cases) +
           tail + fmt::format("complete -F {} {}\n", function, program());
}

}  // namespace lm::cli
