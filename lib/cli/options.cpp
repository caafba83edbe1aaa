// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/nearest_name.hpp"
#include "base/problem_list.hpp"
#include "cli/command_line.hpp"
#include "cli/first_word.hpp"
#include "cli/value.hpp"

namespace lm::cli {

struct Options::Impl {
    struct Verb {
        Options options;
        std::function<int()> run;
    };
    std::string program;
    std::string summary;
    std::vector<std::string> examples;
    std::string group = "Options";
    std::vector<Option> table;
    std::vector<Apply> apply;  // one for each entry of the table
    // The target of an option, and a function that returns the text of its value.
    struct Target {
        std::string name;
        const void* address = nullptr;
        std::function<std::string()> text;
    };
    std::vector<Target> targets;
    std::vector<std::pair<Exit, std::string>> exit_codes;
    std::vector<std::unique_ptr<Verb>> verbs;
    std::vector<std::string> verb_names;
    std::vector<std::string> other_words;  // set by not_called()
    GivenNames* reported = nullptr;        // set by report_given()
    std::function<void(Problems&)> add_more_problems;

    // Result of the last parse().
    Verb* chosen = nullptr;
    CommandLine command_line{{{}, std::make_shared<GivenNames::Names>()}, {}};

    void add(Option option, Apply apply_values);
    // Stores the target of the option that was declared last.
    template <typename T>
    void targets_last(const T* target) {
        targets.push_back({table.back().name(), target, [target] { return text_of(*target); }});
    }
    void targets_last(const bool* target, bool when) {
        targets.push_back({table.back().name(), target,
                           [target, when] { return std::string(*target == when ? "given" : ""); }});
    }
    void add_value(std::string_view names, std::string metavar, std::string help,
                   std::string default_text, int max_values, Apply apply_values);
    void add_positional(std::string name, std::string help, int min_values, int max_values,
                        Apply apply_values);
    bool has_only_verbs() const { return !verbs.empty() && table.empty(); }
    Commands commands() const;
    void check_no_verb_was_meant(const Values& arguments, const Values& operands) const;
};

namespace {

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
constexpr bool is_text =
    std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>> ||
    std::is_same_v<T, WithDefault<std::string>>;

template <typename T>
Apply apply_one(T* target) {
    return [target](const std::string& name, const Values& values) {
        parse_value(name, values.back(), *target);
    };
}

template <typename T>
Apply apply_all(std::vector<T>* target) {
    return [target](const std::string& name, const Values& values) {
        std::vector<T> converted(values.size());
        for (size_t i = 0; i < values.size(); ++i) parse_value(name, values[i], converted[i]);
        *target = std::move(converted);
    };
}

// The first occurrence of the option replaces its default; later occurrences append values.
Apply apply_added(std::vector<std::string>* target) {
    return [target, any = std::make_shared<bool>(false)](const std::string&, const Values& values) {
        if (!std::exchange(*any, true)) target->clear();
        target->insert(target->end(), values.begin(), values.end());
    };
}

// Returns the options whose group and name are both not in the list.
std::vector<Option*> not_listed(std::span<Option> options, const Values& groups_and_names) {
    for (const std::string& text : groups_and_names)
        LM_CHECK(std::ranges::any_of(options,
                                     [&text](const Option& option) {
                                         return option.group == text || option.name() == text;
                                     }),
                 "expected a declared group or option, got {}", text);
    const auto listed = [&](const std::string& text) {
        return std::ranges::find(groups_and_names, text) != groups_and_names.end();
    };
    std::vector<Option*> others;
    for (Option& option : options) {
        if (!listed(option.group) && !listed(option.name())) others.push_back(&option);
    }
    return others;
}

template <typename T>
Apply apply_choice(T* target, const Values& choices) {
    return [target, choices](const std::string& name, const Values& values) {
        const std::string& value = values.back();
        if (std::ranges::find(choices, value) == choices.end()) refuse_value(name, value, choices);
        parse_value(name, value, *target);
    };
}

}  // namespace

void Options::Impl::add(Option option, Apply apply_values) {
    option.group = group;
    for (const std::string& name : option.names) {
        const bool dashes = name.starts_with('-');
        LM_CHECK(dashes != option.positional, "expected {}, got '{}'",
                 option.positional ? "an operand without dashes" : "an option with dashes", name);
        LM_CHECK(command_line.given.declared->insert(name).second, "option {} is declared twice",
                 name);
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
    impl_->targets_last(target, true);
}

void Options::flag_off(std::string_view names, bool* target, std::string help) {
    Option option;
    option.names = split_names(names);
    option.help = std::move(help);
    impl_->add(std::move(option), [target](const std::string&, const Values&) { *target = false; });
    impl_->targets_last(target, false);
}

template <typename T>
void Options::value(std::string_view names, T* target, std::string metavar, std::string help) {
    impl_->add_value(names, std::move(metavar), std::move(help), text_of(*target), 1,
                     apply_one(target));
    impl_->table.back().is_text = is_text<T>;
    impl_->targets_last(target);
}
template void Options::value(std::string_view, i64*, std::string, std::string);
template void Options::value(std::string_view, double*, std::string, std::string);
template void Options::value(std::string_view, std::string*, std::string, std::string);
template void Options::value(std::string_view, Bytes*, std::string, std::string);
template void Options::value(std::string_view, Duration*, std::string, std::string);
template void Options::value(std::string_view, std::optional<i64>*, std::string, std::string);
template void Options::value(std::string_view, std::optional<double>*, std::string, std::string);
template void Options::value(std::string_view, std::optional<std::string>*, std::string,
                             std::string);
template void Options::value(std::string_view, std::optional<Bytes>*, std::string, std::string);
template void Options::value(std::string_view, std::optional<Duration>*, std::string, std::string);
template void Options::value(std::string_view, WithDefault<i64>*, std::string, std::string);
template void Options::value(std::string_view, WithDefault<double>*, std::string, std::string);
template void Options::value(std::string_view, WithDefault<std::string>*, std::string, std::string);
template void Options::value(std::string_view, WithDefault<Bytes>*, std::string, std::string);
template void Options::value(std::string_view, WithDefault<Duration>*, std::string, std::string);

template <typename T>
void Options::values(std::string_view names, std::vector<T>* target, std::string metavar,
                     std::string help) {
    impl_->add_value(names, std::move(metavar), std::move(help), text_of(*target),
                     Option::any_number, apply_all(target));
    impl_->table.back().is_text = is_text<T>;
    impl_->targets_last(target);
}
template void Options::values(std::string_view, std::vector<std::string>*, std::string,
                              std::string);
template void Options::values(std::string_view, std::vector<i64>*, std::string, std::string);
template void Options::values(std::string_view, std::vector<double>*, std::string, std::string);

void Options::values_added(std::string_view names, std::vector<std::string>* target,
                           std::string metavar, std::string help) {
    impl_->add_value(names, std::move(metavar), std::move(help), text_of(*target),
                     Option::any_number, apply_added(target));
    impl_->targets_last(target);
}

template <typename T>
void Options::choice(std::string_view names, T* target, std::vector<std::string> choices,
                     std::string help) {
    const std::string initial = text_of(*target);
    LM_CHECK(initial.empty() || std::ranges::find(choices, initial) != choices.end(),
             "{}: expected a default among {}, got '{}'", names, fmt::join(choices, ", "), initial);
    impl_->add_value(names, fmt::format("{}", fmt::join(choices, "|")), std::move(help), initial, 1,
                     apply_choice(target, choices));
    impl_->table.back().choices = std::move(choices);
    impl_->targets_last(target);
}
template void Options::choice(std::string_view, std::string*, std::vector<std::string>,
                              std::string);
template void Options::choice(std::string_view, WithDefault<std::string>*, std::vector<std::string>,
                              std::string);

std::vector<Options::Setting> Options::settings() const {
    std::vector<Setting> result;
    std::set<const void*> seen;
    for (const Impl::Target& target : impl_->targets) {
        if (seen.insert(target.address).second) result.push_back({target.name, target.text()});
    }
    return result;
}

void Options::value_is_optional() {
    Option& option = impl_->table.back();
    LM_CHECK(!option.choices.empty(), "{}: expected an option with choices", option.name());
    option.min_values = 0;
    option.metavar = "[" + option.metavar + "]";
    Apply& apply = impl_->apply.back();
    apply = [given = apply, bare = option.choices.front()](const std::string& name,
                                                           const Values& values) {
        // CLI11 passes an empty string for an omitted value.
        const bool omitted = values.empty() || values.back().empty();
        given(name, omitted ? Values{bare} : values);
    };
}

void Options::completes(std::vector<std::string> words) {
    impl_->table.back().words = std::move(words);
}

void Options::operands_mean(std::string_view name) {
    for (Option& option : impl_->table) option.is_usual = option.name() == name;
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

void Options::refused(std::string_view names, int n_values, std::string reason,
                      std::string neutral_value, std::string harmless_with) {
    Option option;
    option.names = split_names(names);
    option.metavar = n_values == 0 ? "" : "X";
    option.help = std::move(reason);
    option.kind = Option::Kind::refused;
    option.neutral_value = std::move(neutral_value);
    option.harmless_with = std::move(harmless_with);
    option.max_values = n_values == 0 ? 0 : Option::any_number;
    option.hidden = true;
    impl_->add(std::move(option), nullptr);
}

void Options::show_only(const std::vector<std::string>& groups_and_names, size_t first) {
    const std::span<Option> options = std::span(impl_->table).subspan(first);
    for (Option* option : not_listed(options, groups_and_names)) option->hidden = true;
}

void Options::describe_only(const std::vector<std::string>& names, size_t first) {
    const std::span<Option> options = std::span(impl_->table).subspan(first);
    for (Option* option : not_listed(options, names)) option->only_named = !option->positional;
}

void Options::not_called(std::vector<std::string> words) {
    impl_->other_words = std::move(words);
}

Options& Options::verb(std::string name, std::string summary, std::function<int()> run) {
    Options options(impl_->program + " " + name, std::move(summary));
    impl_->verb_names.push_back(std::move(name));
    impl_->verbs.push_back(
        std::make_unique<Impl::Verb>(Impl::Verb{std::move(options), std::move(run)}));
    return impl_->verbs.back()->options;
}

Commands Options::Impl::commands() const {
    Commands result{.names = verb_names, .options = table};
    for (size_t i = 0; i < verbs.size(); ++i) {
        for (const std::string& word : verbs[i]->options.impl_->other_words)
            result.other_words.emplace_back(word, verb_names[i]);
    }
    return result;
}

void Options::Impl::check_no_verb_was_meant(const Values& arguments, const Values& operands) const {
    if (verbs.empty()) return;
    const bool is_first = !operands.empty() && operands[0] == arguments[0];
    if (is_first) refuse_near_command(operands[0], commands());
    if (has_only_verbs()) usage_error("command", "is missing: {}", commands_text(commands()));
}

Options::Parsed Options::parse(const std::vector<std::string>& arguments) {
    impl_->command_line.given.names.clear();
    impl_->command_line.occurrences.clear();
    impl_->chosen = nullptr;
    const std::string first = arguments.empty() ? "" : arguments[0];
    const auto verb = std::ranges::find(impl_->verb_names, first);
    if (!arguments.empty() && verb != impl_->verb_names.end()) {
        impl_->chosen = impl_->verbs[static_cast<size_t>(verb - impl_->verb_names.begin())].get();
        return impl_->chosen->options.parse({arguments.begin() + 1, arguments.end()});
    }
    check_first_word(first, impl_->commands());
    if (impl_->has_only_verbs() && first.starts_with('-') && first != "--" && !is_built_in(first)) {
        usage_error(first, "options follow the command: write the option after the command");
    }
    Problems problems;
    const Parsed parsed = apply_command_line(
        impl_->table, impl_->apply, arguments,
        [&](const Values& operands) { impl_->check_no_verb_was_meant(arguments, operands); },
        impl_->command_line, problems);
    if (impl_->reported != nullptr) *impl_->reported = impl_->command_line.given;
    if (!problems.empty() && impl_->add_more_problems) impl_->add_more_problems(problems);
    throw_problems(problems);
    return parsed;
}

void Options::report_given(GivenNames* given) {
    impl_->reported = given;
}

void Options::on_problems(std::function<void(Problems&)> add_more) {
    impl_->add_more_problems = std::move(add_more);
}

bool Options::given(std::string_view name) const {
    return impl_->command_line.given.contains(name);
}

const std::vector<Options::Occurrence>& Options::occurrences() const {
    return impl_->command_line.occurrences;
}

Options* Options::chosen_verb() {
    return impl_->chosen ? &impl_->chosen->options : nullptr;
}

std::function<int()> Options::chosen_run() const {
    return impl_->chosen ? impl_->chosen->run : std::function<int()>();
}

void Options::examples(std::vector<std::string> lines) {
    impl_->examples = std::move(lines);
}

void Options::exits_with(Exit code, std::string meaning) {
    impl_->exit_codes.emplace_back(code, std::move(meaning));
}

const std::vector<Option>& Options::table() const {
    return impl_->table;
}
bool Options::declares(std::string_view name) const {
    return impl_->command_line.given.declared->contains(name);
}
const std::string& Options::program() const {
    return impl_->program;
}
const std::string& Options::summary() const {
    return impl_->summary;
}
const std::vector<std::string>& Options::examples() const {
    return impl_->examples;
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
