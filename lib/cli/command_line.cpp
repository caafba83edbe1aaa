// SPDX-License-Identifier: Apache-2.0
// One command line against the table of options: the verb, each option's values into its target,
// and the operands to those who take them.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.hpp"
#include "cli/options_impl.hpp"
#include "cli/parse.hpp"

namespace lm::cli {
namespace {

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

const std::vector<Options::Later>& Options::given_later() const {
    return impl_->given_later;
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

}  // namespace lm::cli
