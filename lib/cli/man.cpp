// SPDX-License-Identifier: Apache-2.0
#include "cli/man.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "cli/option_text.hpp"

namespace lm::cli {
namespace {

struct ExitMeaning {
    Exit code;
    bool always;  // whether every program may return this code
    const char* meaning;
};

constexpr std::array<ExitMeaning, 9> exit_meanings = {{
    {Exit::done, true, "Done."},
    {Exit::answer_is_no, false, "The work was done and the answer is no."},
    {Exit::usage, true, "Wrong usage or configuration; nothing was written."},
    {Exit::failure, true,
     "Failure at run time: data, input or output, memory, device, communication."},
    {Exit::self_stopped, false, "Training stopped itself: non-finite values or no progress."},
    {Exit::bug, true, "A bug of the program itself."},
    {Exit::run_again, false, "Stopped before the end: run the same command again to continue."},
    {Exit::do_not_run_again, false, "Stopped by the kill switch: do not run it again."},
    {Exit::superseded, false,
     "Superseded: a newer run uses the checkpoint directory, or another directory took its "
     "place; nothing was written."},
}};

// Escapes the text of a line for roff: backslashes, hyphens, and a dot or quote at the start, which
// would make the line a control line.
std::string roff_escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\\') {
            result += "\\e";
        } else if (c == '-') {
            result += "\\-";
        } else {
            result += c;
        }
    }
    if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
    return result;
}

// Returns whether `text` looks like a macro of mdoc: short and capitalized, such as "Op" and "Brq".
bool is_like_macro(std::string_view text) {
    const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
    return (text.size() == 2 || text.size() == 3) && text[0] >= 'A' && text[0] <= 'Z' &&
           std::ranges::all_of(text.substr(1), lower);
}

// Escapes and quotes an argument of a macro, so that mdoc does not read the argument as a macro.
std::string argument(std::string_view text) {
    std::string result = roff_escaped(text);
    if (is_like_macro(text) || text.find_first_of(".,:;()[]?!|") == 0) result.insert(0, "\\&");
    return text.find(' ') == std::string_view::npos ? result : "\"" + result + "\"";
}

// Splits `text` into lines: each sentence begins a line, and lines have at most 72 characters.
std::string lines_of(std::string text) {
    if (!text.ends_with('.')) text += '.';
    std::string result;
    while (!text.empty()) {
        size_t end = text.find(". ");
        end = end == std::string::npos ? text.size() : end + 1;
        for (const std::string& line : wrap(text.substr(0, end), 72))
            result += roff_escaped(line) + "\n";
        text.erase(0, std::min(end + 1, text.size()));
    }
    return result;
}

std::string prose(std::string text) {
    return lines_of(capitalized(std::move(text)));
}

std::string flag_macro(const std::string& name) {
    return "Fl " + roff_escaped(name.substr(1));
}

std::string choices_macro(const Option& option) {
    std::string text;
    for (const std::string& choice : option.choices) {
        text += std::string(text.empty() ? "Cm " : " | Cm ") + argument(choice);
    }
    return text;
}

std::string item_of(const Option& option) {
    std::string text = ".It";
    for (size_t i = 0; i < option.names.size(); ++i) {
        text += std::string(i == 0 ? " " : " , ") + flag_macro(option.names[i]);
    }
    if (!option.choices.empty()) return text + " " + choices_macro(option) + "\n";
    if (!option.metavar.empty()) text += " Ar " + argument(option.metavar);
    if (has_dots(option)) text += " ...";
    return text + "\n";
}

std::string body_of(const Option& option) {
    std::string text = option.help.empty() ? "" : prose(option.help);
    if (!option.default_text.empty()) {
        text += "The default is\n.Ql " + argument(option.default_text) + " .\n";
    }
    return text;
}

std::string list_of(const std::vector<Option>& options) {
    std::string text = ".Bl -tag -width Ds\n";
    for (const Option& option : options) text += item_of(option) + body_of(option);
    return text + ".El\n";
}

// Returns the list of the flags that have no effect. Flags with the same reason form one entry,
// with the reason at its end.
std::string list_by_reason(std::vector<Option> options) {
    std::string text = ".Bl -tag -width Ds -compact\n";
    while (!options.empty()) {
        const Option first = options.front();
        const auto others = std::stable_partition(
            options.begin(), options.end(),
            [&first](const Option& option) { return option.help == first.help; });
        for (auto option = options.begin(); option != others; ++option) text += item_of(*option);
        text += body_of(first);
        options.erase(options.begin(), others);
        if (!options.empty()) text += ".Pp\n";
    }
    return text + ".El\n";
}

std::string operand_list(const Options& options) {
    const std::vector<Option> operands = operands_of(options);
    if (operands.empty()) return "";
    std::string text = ".Bl -tag -width Ds\n";
    for (const Option& operand : operands) {
        text += ".It Ar " + argument(operand.metavar) + (has_dots(operand) ? " ...\n" : "\n");
        text += body_of(operand);
    }
    return text + ".El\n";
}

// A heading of the page and the text below it.
struct Section {
    std::string title;
    std::string body;
    friend bool operator==(const Section&, const Section&) = default;
};

std::vector<Section> sections_of(const Options& options, bool with_help) {
    std::vector<Section> sections;
    for (const auto& [title, group] : groups_of(options)) {
        if (title != "Help" || with_help) sections.push_back({title, list_of(group)});
    }
    const std::vector<Option> accepted = accepted_of(options);
    if (!accepted.empty()) {
        sections.push_back({"Accepted and ignored",
                            "Flags of other programs that have no effect here.\n"
                            "The text of each entry states the reason.\n.Pp\n" +
                                list_by_reason(accepted)});
    }
    return sections;
}

// "a", "a and b", "a, b and c"
std::string enumeration(const std::vector<std::string>& names) {
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
        text += names[i];
    }
    return text;
}

// Returns the sections that at least two verbs have, each with the names of these verbs. The page
// prints a shared section once.
std::vector<std::pair<Section, std::vector<std::string>>> common_sections(const Options& options) {
    std::vector<std::pair<Section, std::vector<std::string>>> sections;
    for (const Options* verb : options.verbs()) {
        for (const Section& section : sections_of(*verb, false)) {
            const auto known = std::ranges::find_if(
                sections, [&section](const auto& entry) { return entry.first == section; });
            if (known != sections.end()) {
                known->second.push_back(verb_name(options, *verb));
            } else {
                sections.push_back({section, {verb_name(options, *verb)}});
            }
        }
    }
    std::erase_if(sections, [](const auto& entry) { return entry.second.size() < 2; });
    return sections;
}

std::string title_of(const Section& section) {
    return section.title == "Options" ? "Common options" : section.title;
}

// Returns the subsection of a verb (".Ss lm-ckpt ls DIR") with its summary, operands and options.
// The sections in `elsewhere` are printed elsewhere on the page, so the subsection only refers to
// them.
std::string verb_section(const Options& verb, const std::vector<Section>& elsewhere) {
    std::string text = ".Ss " + roff_escaped(verb.program());
    for (const Option& operand : operands_of(verb))
        text += " " + roff_escaped(operand_text(operand));
    text += "\n" + prose(verb.summary()) + operand_list(verb);
    std::vector<std::string> references;
    for (const Section& section : sections_of(verb, false)) {
        if (std::ranges::find(elsewhere, section) != elsewhere.end()) {
            references.push_back("\"" + title_of(section) + "\"");
            continue;
        }
        if (section.title != "Options") text += ".Pp\n" + roff_escaped(section.title) + ":\n";
        text += section.body;
    }
    if (!references.empty())
        text += ".Pp\n" + prose("Also has the options under " + enumeration(references));
    return text;
}

// Returns the program's own meaning of a code. Returns an empty text when the code has its general
// meaning, and nullopt when the program does not return the code.
std::optional<std::string> own_meaning(const Options& options, Exit code) {
    for (const auto& [declared, meaning] : options.exit_codes()) {
        if (declared == code) return meaning;
    }
    return std::nullopt;
}

// Returns the text of an exit code in the man page: the program's own meaning, then the name of
// each verb that has its own meaning, with this meaning. If neither the program nor a verb has its
// own meaning, returns the general meaning. Returns nullopt for a code that neither the program nor
// a verb returns.
std::optional<std::string> meaning_of(const Options& options, const ExitMeaning& entry) {
    std::string text;
    bool returned = entry.always;
    if (const auto own = own_meaning(options, entry.code)) {
        returned = true;
        if (!own->empty()) text += prose(*own);
    }
    for (const Options* verb : options.verbs()) {
        const auto own = own_meaning(*verb, entry.code);
        returned = returned || own.has_value();
        if (own && !own->empty()) {
            text += ".Cm " + roff_escaped(verb_name(options, *verb)) + " :\n" + lines_of(*own);
        }
    }
    if (!returned) return std::nullopt;
    return text.empty() ? prose(entry.meaning) : text;
}

}  // namespace

std::string man_options(const Options& options) {
    std::string text = ".Sh OPTIONS\n" + operand_list(options);
    std::vector<Section> elsewhere = sections_of(options, true);
    for (const Section& section : elsewhere) {
        if (section.title != "Options") text += ".Ss " + roff_escaped(section.title) + "\n";
        text += section.body;
    }
    const auto common = common_sections(options);
    for (const auto& [section, users] : common) elsewhere.push_back(section);
    for (const Options* verb : options.verbs()) text += verb_section(*verb, elsewhere);
    for (const auto& [section, users] : common) {
        text += ".Ss " + roff_escaped(title_of(section)) + "\n";
        text += prose("Options of " + enumeration(users)) + section.body;
    }
    return text;
}

std::string man_exit_status(const Options& options) {
    std::string text = ".Sh EXIT STATUS\n.Bl -tag -width Ds\n";
    for (const ExitMeaning& entry : exit_meanings) {
        const std::optional<std::string> words = meaning_of(options, entry);
        if (!words) continue;
        text += ".It " + std::to_string(static_cast<int>(entry.code)) + "\n" + *words;
    }
    return text + ".El\n";
}

}  // namespace lm::cli
