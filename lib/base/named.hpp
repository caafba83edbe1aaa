// SPDX-License-Identifier: Apache-2.0
// Tables that state the name of each value of an enum in options, files and messages. Each table
// follows its enum in the same header. All code that converts between names and values uses the
// table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

template <typename Value>
struct Named {
    Value value;
    std::string_view name;
};
template <typename Value>
Named(Value, const char*) -> Named<Value>;

// Throws Error(bug). Not inline, because nvcc, which reads this header, cannot compile fmt.
[[noreturn]] void throw_no_name_for(int value);

// Returns the name of `value`. Throws Error(bug) when the table has no entry for it.
template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value value) {
    for (const auto& entry : table) {
        if (entry.value == value) return entry.name;
    }
    throw_no_name_for(static_cast<int>(value));
}

// Returns the value with this name; nullopt for an unknown name.
template <typename Table>
auto value_in(const Table& table, std::string_view name)
    -> std::optional<decltype(table[0].value)> {
    for (const auto& entry : table) {
        if (entry.name == name) return entry.value;
    }
    return std::nullopt;
}

// Returns all names in the order of the table.
template <typename Table>
std::vector<std::string> names_in(const Table& table) {
    std::vector<std::string> names;
    for (const auto& entry : table) names.emplace_back(entry.name);
    return names;
}

}  // namespace lm
