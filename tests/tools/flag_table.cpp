// SPDX-License-Identifier: Apache-2.0
// test_flag_table: prints what lm-train does with each flag of Megatron-LM, as
// docs/megatron-flags.md. Standard input has one flag a line. Exit code 1: lm-train does not know
// one.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "config/train_flags.hpp"

using namespace lm;

namespace {

using Kind = cli::Option::Kind;

// Returns the option with this name. A name that ends with '*' stands for all flags that begin so.
const cli::Option* find(const cli::Options& options, const std::string& flag) {
    const cli::Option* by_prefix = nullptr;
    for (const cli::Option& option : options.table()) {
        for (const std::string& name : option.names) {
            if (name == flag) return &option;
            if (name.ends_with('*') && flag.starts_with(name.substr(0, name.size() - 1)))
                by_prefix = &option;
        }
    }
    return by_prefix;
}

// Prints the flags after `text`, in lines of at most 120 columns.
void print_item(const std::string& text, const std::set<std::string>& flags) {
    std::string line = text.empty() ? "" : "- " + text + ":";
    for (const std::string& flag : flags) {
        const std::string word = fmt::format("`{}`{}", flag, flag == *flags.rbegin() ? "" : ",");
        if (line.size() + 1 + word.size() > 120) {
            fmt::print("{}\n", line);
            line = text.empty() ? "" : " ";
        }
        line += (line.empty() ? "" : " ") + word;
    }
    fmt::print("{}\n", line);
}

struct Section {
    std::string title;
    std::map<std::string, std::set<std::string>> flags_of;  // by the reason
};

void print_section(const Section& section) {
    size_t n = 0;
    for (const auto& [text, flags] : section.flags_of) n += flags.size();
    fmt::print("\n## {} ({})\n\n", section.title, n);
    for (const auto& [text, flags] : section.flags_of) print_item(text, flags);
}

}  // namespace

int main() {
    cli::Options options("lm-train", "train");
    config::TrainFlags train_flags;
    config::add_train_options(options, train_flags);
    std::map<Kind, Section> sections{
        {Kind::normal, {"Flags with their meaning in Megatron-LM", {}}},
        {Kind::accepted, {"Flags without effect, with the reason", {}}},
        {Kind::refused, {"Refused flags, with the reason", {}}}};
    int unknown = 0;
    for (std::string flag; std::getline(std::cin, flag);) {
        const cli::Option* const option = find(options, flag);
        if (option == nullptr) {
            fmt::print(stderr, "{}: unknown to lm-train\n", flag);
            ++unknown;
            continue;
        }
        const Kind kind = option->kind;
        sections[kind].flags_of[kind == Kind::normal ? "" : option->help].insert(flag);
    }
    for (const Kind kind : {Kind::normal, Kind::accepted, Kind::refused})
        print_section(sections[kind]);
    return unknown == 0 ? 0 : 1;
}
