// SPDX-License-Identifier: Apache-2.0
// Declaring options, storing their values (value.hpp) in the targets, and handing out the operands.
// Help, man page and completion read the finished table (help.cpp, man.cpp, completion.cpp).
#include "cli/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/log.hpp"
#include "cli/parse.hpp"
#include "cli/value.hpp"

namespace lm::cli {
namespace {

using Values = std::vector<std::string>;
using Apply = std::function<void(const std::string& name, const Values& values)>;

Values split_names(std::string_view names) {
    Values result;
    while (!names.empty()) {
        const size_t comma = std::min(names.find(','), names.size());
        result.emplace_back(names.substr(0, comma));
        names.remove_prefix(std::min(comma + 1, names.size()));
    }
    return result;
}

template <typename T>
Apply apply_one(T* target) {
    return [target](const std::string& name, const Values& values) {
        convert(name, values.back(), *target);
    };
}

template <typename T>
Apply apply_all(std::vector<T>* target) {
    return [target](const std::string& name, const Values& values) {
        std::vector<T> converted(values.size());
        for (size_t i = 0; i < values.size(); ++i) convert(name, values[i], converted[i]);
        *target = std::move(converted);
    };
}

Apply apply_choice(std::string* target, const Values& choices) {
    return [target, choices](const std::string& name, const Values& values) {
        const std::string& value = values.back();
        if (std::ranges::find(choices, value) == choices.end()) {
            usage_error(name, "'{}' is not one of {}", value, fmt::join(choices, ", "));
        }
        *target = value;
    };
}

struct HelpAsked {
    Options::Parsed what;
};

// --help and --version, which every program and verb has.
const std::vector<Option>& built_in_options() {
    static const std::vector<Option> table = [] {
        Option help;
        help.names = {"--help", "-h"};
        help.kind = Option::Kind::help;
        Option version;
        version.names = {"--version"};
        version.kind = Option::Kind::version;
        return std::vector<Option>{help, version};
    }();
    return table;
}

bool is_built_in(const std::string& name) {
    return std::ranges::any_of(built_in_options(), [&name](const Option& option) {
        return std::ranges::find(option.names, name) != option.names.end();
    });
}

}  // namespace

struct Options::Impl {
    struct Verb {
        Options options;
        std::function<int()> run;
    };
    std::string program;
    std::string summary;
    std::string epilogue;
    std::string group = "Options";
    std::vector<Option> table;
    std::vector<Apply> apply;  // one for each entry of the table
    std::vector<std::pair<Exit, std::string>> exit_codes;
    std::vector<std::unique_ptr<Verb>> verbs;
    std::vector<std::string> verb_names;
    Verb* chosen = nullptr;
    std::set<std::string> given;  // first names
    std::vector<Later> given_later;

    void add(Option option, Apply apply_values);
    void add_value(std::string_view names, std::string metavar, std::string help,
                   std::string default_text, int max_values, Apply apply_values);
    void add_positional(std::string name, std::string help, int min_values, int max_values,
                        Apply apply_values);
    void on_option(const Option& option, const Values& values);
    void assign_operands(const Values& operands);
    Parsed parse_verb(const Values& arguments);
    std::string verbs_text() const;
    void check_first_word(const Values& arguments) const;
    void check_no_verb_was_meant(const Values& arguments, const Values& operands,
                                 bool only_verbs) const;
};

void Options::Impl::add(Option option, Apply apply_values) {
    option.group = group;
    for (const std::string& name : option.names) {
        const bool dashes = name.starts_with('-');
        LM_CHECK(dashes != option.positional,
                 fmt::format("'{}' is declared with wrong dashes", name));
        for (const Option& other : table) {
            LM_CHECK(std::ranges::find(other.names, name) == other.names.end(),
                     fmt::format("{} is declared twice", name));
        }
    }
    table.push_back(std::move(option));
    apply.push_back(std::move(apply_values));
}

void Options::Impl::add_value(std::string_view names, std::string metavar, std::string help,
                              std::string default_text, int max_values, Apply apply_values) {
    Option option;
    option.names = split_names(names);
    option.metavar = std::move(metavar);
    option.help = std::move(help);
    option.default_text = std::move(default_text);
    option.repeatable = max_values > 1;
    option.min_values = 1;
    option.max_values = max_values;
    add(std::move(option), std::move(apply_values));
}

void Options::Impl::add_positional(std::string name, std::string help, int min_values,
                                   int max_values, Apply apply_values) {
    Option option;
    option.names = {std::move(name)};
    option.metavar = option.name();
    option.help = std::move(help);
    option.positional = true;
    option.repeatable = max_values > 1;
    option.min_values = min_values;
    option.max_values = max_values;
    add(std::move(option), std::move(apply_values));
}

void Options::Impl::on_option(const Option& option, const Values& values) {
    if (option.kind == Option::Kind::help) throw HelpAsked{Parsed::help};
    if (option.kind == Option::Kind::version) throw HelpAsked{Parsed::version};
    if (option.kind == Option::Kind::refused) usage_error(option.name(), "{}", option.help);
    const bool first = given.insert(option.name()).second;
    if (option.kind == Option::Kind::accepted) {
        if (first && !option.hidden) note("{}: ignored: {}", option.name(), option.help);
        return;
    }
    if (option.kind == Option::Kind::later) {
        if (first) given_later.push_back({option.name(), option.help});
        return;
    }
    const auto entry = std::ranges::find_if(
        table, [&option](const Option& other) { return other.name() == option.name(); });
    apply[static_cast<size_t>(entry - table.begin())](option.name(), values);
}

// Each operand of the table gets its least number of arguments; what is left over goes to the first
// ones that take more.
void Options::Impl::assign_operands(const Values& operands) {
    size_t needed = 0;
    for (const Option& option : table) {
        if (option.positional) needed += static_cast<size_t>(option.min_values);
    }
    size_t next = 0;
    size_t spare = operands.size() > needed ? operands.size() - needed : 0;
    for (size_t i = 0; i < table.size(); ++i) {
        const Option& option = table[i];
        if (!option.positional) continue;
        const size_t least = static_cast<size_t>(option.min_values);
        const size_t more = std::min(spare, static_cast<size_t>(option.max_values) - least);
        if (operands.size() - next < least) usage_error(option.name(), "missing operand");
        spare -= more;
        const auto begin = operands.begin() + static_cast<std::ptrdiff_t>(next);
        const Values mine(begin, begin + static_cast<std::ptrdiff_t>(least + more));
        next += mine.size();
        if (mine.empty()) continue;
        given.insert(option.name());
        apply[i](option.name(), mine);
    }
    if (next < operands.size()) usage_error(operands[next], "unexpected operand");
}

Options::Parsed Options::Impl::parse_verb(const Values& arguments) {
    const auto name = std::ranges::find(verb_names, arguments.front());
    chosen = verbs[static_cast<size_t>(name - verb_names.begin())].get();
    return chosen->options.parse({arguments.begin() + 1, arguments.end()});
}

std::string Options::Impl::verbs_text() const {
    return fmt::format("use one of {}", fmt::join(verb_names, ", "));
}

// A first word that no operand can be is a wrong verb, whatever stands behind it.
void Options::Impl::check_first_word(const Values& arguments) const {
    if (verbs.empty() || arguments.empty() || arguments[0].starts_with('-')) return;
    if (std::ranges::any_of(table, &Option::positional)) return;
    const std::string& word = arguments[0];
    const std::string nearest = nearest_name(word, verb_names);
    if (nearest.empty()) usage_error(word, "unknown command: {}", verbs_text());
    usage_error(word, "unknown command: did you mean {}?", nearest);
}

void Options::Impl::check_no_verb_was_meant(const Values& arguments, const Values& operands,
                                            bool only_verbs) const {
    if (verbs.empty()) return;
    if (!operands.empty() && operands[0] == arguments[0]) {
        const std::string nearest = nearest_name(operands[0], verb_names);
        if (!nearest.empty()) {
            usage_error(operands[0], "unknown command: did you mean {}?", nearest);
        }
    }
    if (only_verbs) usage_error("command", "missing as first argument: {}", verbs_text());
}

Options::Options(std::string program, std::string summary) : impl_(std::make_unique<Impl>()) {
    impl_->program = std::move(program);
    impl_->summary = std::move(summary);
}
Options::~Options() = default;
Options::Options(Options&&) noexcept = default;

void Options::group(std::string title) {
    impl_->group = std::move(title);
}

void Options::flag(std::string_view names, bool* target, std::string help) {
    Option option;
    option.names = split_names(names);
    option.help = std::move(help);
    impl_->add(std::move(option), [target](const std::string&, const Values&) { *target = true; });
}

void Options::flag_off(std::string_view names, bool* target, std::string help) {
    Option option;
    option.names = split_names(names);
    option.help = std::move(help);
    impl_->add(std::move(option), [target](const std::string&, const Values&) { *target = false; });
}

#define LM_DEFINE_VALUE(type)                                                             \
    void Options::value(std::string_view names, type* target, std::string metavar,        \
                        std::string help) {                                               \
        impl_->add_value(names, std::move(metavar), std::move(help), text_of(*target), 1, \
                         apply_one(target));                                              \
    }
LM_DEFINE_VALUE(i64)
LM_DEFINE_VALUE(double)
LM_DEFINE_VALUE(std::string)
LM_DEFINE_VALUE(Bytes)
LM_DEFINE_VALUE(Duration)
LM_DEFINE_VALUE(std::optional<i64>)
LM_DEFINE_VALUE(std::optional<double>)
LM_DEFINE_VALUE(std::optional<std::string>)
LM_DEFINE_VALUE(std::optional<Bytes>)
LM_DEFINE_VALUE(std::optional<Duration>)
#undef LM_DEFINE_VALUE

#define LM_DEFINE_VALUES(type)                                                                   \
    void Options::values(std::string_view names, std::vector<type>* target, std::string metavar, \
                         std::string help) {                                                     \
        impl_->add_value(names, std::move(metavar), std::move(help), text_of(*target),           \
                         Option::any_number, apply_all(target));                                 \
    }
LM_DEFINE_VALUES(std::string)
LM_DEFINE_VALUES(i64)
LM_DEFINE_VALUES(double)
#undef LM_DEFINE_VALUES

void Options::choice(std::string_view names, std::string* target, std::vector<std::string> choices,
                     std::string help) {
    LM_CHECK(target->empty() || std::ranges::find(choices, *target) != choices.end(),
             fmt::format("{}: the default '{}' is not one of the choices", names, *target));
    impl_->add_value(names, fmt::format("{}", fmt::join(choices, "|")), std::move(help), *target, 1,
                     apply_choice(target, choices));
    impl_->table.back().choices = std::move(choices);
}

void Options::positional(std::string name, std::string* target, std::string help) {
    impl_->add_positional(std::move(name), std::move(help), 1, 1, apply_one(target));
}

void Options::positional(std::string name, std::optional<std::string>* target, std::string help) {
    impl_->add_positional(std::move(name), std::move(help), 0, 1, apply_one(target));
}

void Options::positionals(std::string name, std::vector<std::string>* target, std::string help) {
    impl_->add_positional(std::move(name), std::move(help), 1, Option::any_number,
                          apply_all(target));
}

void Options::positionals_or_none(std::string name, std::vector<std::string>* target,
                                  std::string help) {
    impl_->add_positional(std::move(name), std::move(help), 0, Option::any_number,
                          apply_all(target));
}

void Options::accepted(std::string_view names, int n_values, std::string instead) {
    Option option;
    option.names = split_names(names);
    option.metavar = n_values == 0 ? "" : "X";
    option.help = std::move(instead);
    option.kind = Option::Kind::accepted;
    option.min_values = std::max(n_values, 0);
    option.max_values = n_values < 0 ? Option::any_number : n_values;
    option.repeatable = option.max_values > 1;
    impl_->add(std::move(option), nullptr);
}

void Options::refused(std::string_view names, int n_values, std::string reason) {
    Option option;
    option.names = split_names(names);
    option.metavar = n_values == 0 ? "" : "X";
    option.help = std::move(reason);
    option.kind = Option::Kind::refused;
    option.max_values = n_values == 0 ? 0 : Option::any_number;
    option.hidden = true;
    impl_->add(std::move(option), nullptr);
}

void Options::later(std::string_view names, int n_values, std::string reason) {
    accepted(names, n_values, std::move(reason));
    impl_->table.back().kind = Option::Kind::later;
    impl_->table.back().hidden = true;
}

const std::vector<Options::Later>& Options::given_later() const {
    return impl_->given_later;
}

void Options::show_only(const std::vector<std::string>& groups_and_names) {
    const auto listed = [&](const std::string& text) {
        return std::ranges::find(groups_and_names, text) != groups_and_names.end();
    };
    for (const std::string& text : groups_and_names) {
        LM_CHECK(std::ranges::any_of(impl_->table,
                                     [&text](const Option& option) {
                                         return option.group == text || option.name() == text;
                                     }),
                 fmt::format("no option {} to be shown", text));
    }
    for (Option& option : impl_->table) {
        if (!listed(option.group) && !listed(option.name())) option.hidden = true;
    }
}

Options& Options::verb(std::string name, std::string summary, std::function<int()> run) {
    Options options(impl_->program + " " + name, std::move(summary));
    impl_->verb_names.push_back(std::move(name));
    impl_->verbs.push_back(
        std::make_unique<Impl::Verb>(Impl::Verb{std::move(options), std::move(run)}));
    return impl_->verbs.back()->options;
}

Options::Parsed Options::parse(const std::vector<std::string>& arguments) {
    impl_->given.clear();
    impl_->given_later.clear();
    impl_->chosen = nullptr;
    const bool is_verb = !arguments.empty() && std::ranges::find(impl_->verb_names, arguments[0]) !=
                                                   impl_->verb_names.end();
    if (is_verb) return impl_->parse_verb(arguments);
    impl_->check_first_word(arguments);
    std::vector<Option> table = impl_->table;
    table.insert(table.end(), built_in_options().begin(), built_in_options().end());
    const bool only_verbs = !impl_->verbs.empty() && impl_->table.empty();
    const bool misplaced = only_verbs && !arguments.empty() && arguments[0].starts_with('-') &&
                           arguments[0] != "--" && !is_built_in(arguments[0]);
    if (misplaced) usage_error(arguments[0], "stands before the command: put it behind");
    try {
        const Values operands =
            parse_arguments(table, arguments, [this](const Option& option, const Values& values) {
                impl_->on_option(option, values);
            });
        impl_->check_no_verb_was_meant(arguments, operands, only_verbs);
        impl_->assign_operands(operands);
    } catch (const HelpAsked& asked) {
        return asked.what;
    }
    return Parsed::run;
}

bool Options::given(std::string_view name) const {
    for (const Option& option : impl_->table) {
        if (std::ranges::find(option.names, name) != option.names.end()) {
            return impl_->given.contains(option.name());
        }
    }
    bug(__FILE__, __LINE__, fmt::format("given(\"{}\"): no such option", name));
}

Options* Options::chosen_verb() {
    return impl_->chosen ? &impl_->chosen->options : nullptr;
}

std::function<int()> Options::chosen_run() const {
    return impl_->chosen ? impl_->chosen->run : std::function<int()>();
}

void Options::epilogue(std::string text) {
    impl_->epilogue = std::move(text);
}

void Options::exits_with(Exit code, std::string meaning) {
    impl_->exit_codes.emplace_back(code, std::move(meaning));
}

const std::vector<Option>& Options::table() const {
    return impl_->table;
}
const std::string& Options::program() const {
    return impl_->program;
}
const std::string& Options::summary() const {
    return impl_->summary;
}
const std::string& Options::epilogue() const {
    return impl_->epilogue;
}
const std::vector<std::pair<Exit, std::string>>& Options::exit_codes() const {
    return impl_->exit_codes;
}

std::vector<const Options*> Options::verbs() const {
    std::vector<const Options*> result;
    for (const auto& verb : impl_->verbs) result.push_back(&verb->options);
    return result;
}

}  // namespace lm::cli
