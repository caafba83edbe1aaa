// SPDX-License-Identifier: Apache-2.0
#include "base/problem_list.hpp"

#include <algorithm>

namespace lm {
namespace {

constexpr char separator = '\x1e';

}  // namespace

void throw_problems(const std::vector<std::string>& problems, Exit code) {
    if (!problems.empty()) throw Error(code, text_of_problems(problems));
}

std::string text_of_problems(const std::vector<std::string>& problems) {
    return fmt::format("{}", fmt::join(problems, std::string(1, separator)));
}

std::vector<std::string_view> problems_in(std::string_view message) {
    std::vector<std::string_view> problems;
    while (true) {
        const size_t end = std::min(message.find(separator), message.size());
        problems.push_back(message.substr(0, end));
        if (end == message.size()) return problems;
        message.remove_prefix(end + 1);
    }
}

std::string summary_of(std::string_view message) {
    const std::vector<std::string_view> problems = problems_in(message);
    if (problems.size() == 1) return std::string(message);
    return fmt::format("{} (and {} more)", problems.front(), problems.size() - 1);
}

}  // namespace lm
