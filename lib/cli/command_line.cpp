// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/log.hpp"
#include "cli/first_word.hpp"
#include "cli/parse.hpp"

namespace lm::cli {
namespace {

const std::vector<Option>& built_in_options() {
    static const std::vector<Option> table = [] {
        Option help;
        help.names = {"--help", "-h"};
        help.kind = Option::Kind::help;
        Option help_all;
        help_all.names = {"--help-all"};
        help_all.kind = Option::Kind::help_all;
        Option version;
        version.names = {"--version"};
        version.kind = Option::Kind::version;
        return std::vector<Option>{help, help_all, version};
    }();
    return table;
}

class Applier {
  public:
    Applier(const std::vector<Option>& table, const std::vector<Apply>& apply, CommandLine& result)
        : table_(table), apply_(apply), result_(result) {}

    // After --help, --help-all or --version, parsed() returns that request, and the rest of the
    // command line has no effect.
    Options::Parsed parsed() const { return parsed_; }

    void apply_option(const Option& option, const Values& values) {
        if (parsed_ != Options::Parsed::run) return;
        if (option.kind == Option::Kind::help) parsed_ = Options::Parsed::help;
        if (option.kind == Option::Kind::help_all) parsed_ = Options::Parsed::help_all;
        if (option.kind == Option::Kind::version) parsed_ = Options::Parsed::version;
        if (parsed_ != Options::Parsed::run) return;
        if (option.kind == Option::Kind::refused) return refuse(option, values);
        const bool first = mark_given(option);
        if (option.kind == Option::Kind::accepted) {
            if (first && !option.hidden) note("{}: ignored: {}", option.name(), option.help);
            return;
        }
        const auto entry = std::ranges::find_if(
            table_, [&option](const Option& other) { return other.name() == option.name(); });
        apply_[static_cast<size_t>(entry - table_.begin())](option.name(), values);
        result_.occurrences.push_back({option.name(), values});
    }

    // Returns whether there are more operands than the table accepts.
    bool has_spare(const Values& operands) const {
        size_t most = 0;
        for (const Option& option : table_) {
            if (option.positional) most += static_cast<size_t>(option.max_values);
        }
        return operands.size() > most;
    }

    // Each operand of the table gets its minimum number of arguments. The remaining arguments go to
    // the first operands that accept more.
    void apply_operands(const Values& operands, const Values& arguments) {
        size_t needed = 0;
        for (const Option& option : table_) {
            if (option.positional) needed += static_cast<size_t>(option.min_values);
        }
        size_t next = 0;
        size_t spare = operands.size() > needed ? operands.size() - needed : 0;
        for (size_t i = 0; i < table_.size(); ++i) {
            const Option& option = table_[i];
            if (!option.positional) continue;
            const size_t least = static_cast<size_t>(option.min_values);
            const size_t more = std::min(spare, static_cast<size_t>(option.max_values) - least);
            if (operands.size() - next < least)
                usage_error(option.name(), "is missing: {}", option.help);
            spare -= more;
            const auto begin = operands.begin() + static_cast<std::ptrdiff_t>(next);
            const Values mine(begin, begin + static_cast<std::ptrdiff_t>(least + more));
            next += mine.size();
            if (mine.empty()) continue;
            mark_given(option);
            apply_[i](option.name(), mine);
        }
        if (next < operands.size()) refuse_operand(operands[next], arguments);
    }

  private:
    // Returns whether this is the first occurrence of the option.
    bool mark_given(const Option& option) {
        const bool first = !result_.given.contains(option.name());
        result_.given.names.insert(option.names.begin(), option.names.end());
        return first;
    }

    // Throws Error(usage) for an operand that no entry of the table accepts. `arguments`: the whole
    // command line.
    [[noreturn]] void refuse_operand(const std::string& operand, const Values& arguments) const {
        if (operand.empty()) usage_error("''", "is an empty operand: is a variable unset?");
        std::vector<Option> open;  // options that are not on the command line
        std::ranges::copy_if(table_, std::back_inserter(open), [this](const Option& option) {
            return option.kind == Option::Kind::normal && !result_.given.contains(option.name());
        });
        const std::string meant = meant_option(operand, open);
        if (!meant.empty()) usage_error(operand, "unexpected operand: did you mean {}?", meant);
        const std::string flag = flag_before(operand, arguments);
        if (!flag.empty()) usage_error(operand, "unexpected operand: {} takes no value", flag);
        const std::string single = single_value_before(operand, arguments);
        if (!single.empty()) usage_error(operand, "unexpected operand: {} takes one value", single);
        Values names;
        for (const Option& option : table_) {
            if (option.positional) names.push_back(option.name());
        }
        if (names.empty()) usage_error(operand, "unexpected operand: expected only options");
        usage_error(operand, "unexpected operand: expected only {}", fmt::join(names, " and "));
    }

    // Returns the argument before `operand` when it is a flag, which takes no value; otherwise "".
    std::string flag_before(const std::string& operand, const Values& arguments) const {
        for (size_t i = 1; i < arguments.size(); ++i) {
            if (arguments[i] != operand) continue;
            const std::string& before = arguments[i - 1];
            for (const Option& option : table_) {
                const bool named = std::ranges::find(option.names, before) != option.names.end();
                if (named && !option.positional && option.is_flag()) return before;
            }
        }
        return "";
    }

    // Returns the option of which `operand` may be a second value: the argument two places before
    // `operand` when it is an option with one number as its value; otherwise "".
    std::string single_value_before(const std::string& operand, const Values& arguments) const {
        for (size_t i = 2; i < arguments.size(); ++i) {
            if (arguments[i] != operand) continue;
            const std::string& before = arguments[i - 2];
            for (const Option& option : table_) {
                const bool named = std::ranges::find(option.names, before) != option.names.end();
                if (named && !option.positional && option.max_values == 1 && !option.is_text)
                    return before;
            }
        }
        return "";
    }

    // Throws Error(usage) for a refused option, unless its value is neutral_value, with which the
    // option would change nothing.
    void refuse(const Option& option, const Values& values) {
        if (option.neutral_value.empty() || values.size() != 1 ||
            !same_value(values.front(), option.neutral_value)) {
            usage_error(option.name(), "{}", option.help);
        }
        if (mark_given(option)) {
            note("{}: ignored: the value {} has no effect", option.name(), values.front());
        }
    }

    const std::vector<Option>& table_;
    const std::vector<Apply>& apply_;
    CommandLine& result_;
    Options::Parsed parsed_ = Options::Parsed::run;
};

}  // namespace

bool is_built_in(const std::string& name) {
    return std::ranges::any_of(built_in_options(), [&name](const Option& option) {
        return std::ranges::find(option.names, name) != option.names.end();
    });
}

Options::Parsed apply_command_line(
    const std::vector<Option>& table, const std::vector<Apply>& apply, const Values& arguments,
    const std::function<void(const Values& operands)>& check_operands, CommandLine& result,
    std::vector<std::string>& problems) {
    Applier applier(table, apply, result);
    std::vector<Option> all = table;
    all.insert(all.end(), built_in_options().begin(), built_in_options().end());
    const std::optional<Values> operands = parse_arguments(
        all, arguments,
        [&](const Option& option, const Values& values) { applier.apply_option(option, values); },
        problems);
    if (applier.parsed() != Options::Parsed::run) {
        problems.clear();
        return applier.parsed();
    }
    if (!operands) return Options::Parsed::run;
    try {
        if (problems.empty()) check_operands(*operands);
        // Beside other problems, a missing operand is not certain.
        if (problems.empty() || applier.has_spare(*operands)) {
            applier.apply_operands(*operands, arguments);
        }
    } catch (const Error& error) {
        if (error.code() != Exit::usage) throw;
        problems.emplace_back(error.what());
    }
    return Options::Parsed::run;
}

}  // namespace lm::cli
