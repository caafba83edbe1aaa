// SPDX-License-Identifier: Apache-2.0
// The types of option values: the text of a value in help, and the parsers of the command line.
#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

std::string text_of(const std::string& value);
std::string text_of(i64 value);
std::string text_of(double value);
std::string text_of(Bytes size);     // "2GiB"
std::string text_of(Duration time);  // "90s"
template <typename T>
std::string text_of(const std::optional<T>& value) {
    return value ? text_of(*value) : "";
}
template <typename T>
std::string text_of(const WithDefault<T>& value) {
    return text_of(value.value);
}
template <typename T>
std::string text_of(const std::vector<T>& values) {
    std::vector<std::string> texts;
    for (const T& value : values) texts.push_back(text_of(value));
    return fmt::format("{}", fmt::join(texts, " "));
}

// Parse `text` into `target`. Throw Error(usage) naming the option `name` when `text` is not a
// valid value.
void parse_value(const std::string& name, const std::string& text, std::string& target);
void parse_value(const std::string& name, const std::string& text, i64& target);
void parse_value(const std::string& name, const std::string& text, double& target);
void parse_value(const std::string& name, const std::string& text, Bytes& target);
void parse_value(const std::string& name, const std::string& text, Duration& target);
template <typename T>
void parse_value(const std::string& name, const std::string& text, std::optional<T>& target) {
    T value{};
    parse_value(name, text, value);
    target = std::move(value);
}
template <typename T>
void parse_value(const std::string& name, const std::string& text, WithDefault<T>& target) {
    parse_value(name, text, target.value);
    target.given = true;
}

}  // namespace lm::cli
