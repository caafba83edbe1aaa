// SPDX-License-Identifier: Apache-2.0
#include "cluster/host_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/types.hpp"

namespace lm::cluster {
namespace {

// A host name, divided into its prefix and the number at its end. host_list() merges names with the
// same prefix.
struct Numbered {
    std::string prefix;
    size_t width = 0;     // digits of the number
    bool padded = false;  // the number has leading zeros
    i64 number = -1;      // -1: none
};

Numbered split(const std::string& name) {
    constexpr size_t max_digits = 9;
    size_t at = name.size();
    while (at > 0 && name.size() - at < max_digits && name[at - 1] >= '0' && name[at - 1] <= '9') {
        --at;
    }
    if (at == name.size()) return {name};
    const std::string digits = name.substr(at);
    return {name.substr(0, at), digits.size(), digits[0] == '0',
            std::strtoll(digits.c_str(), nullptr, 10)};
}

}  // namespace

std::string host_list(const std::vector<std::string>& hosts, size_t max_runs) {
    std::set<std::pair<std::string, size_t>> padded;
    for (const std::string& name : hosts) {
        if (const Numbered n = split(name); n.padded) padded.insert({n.prefix, n.width});
    }
    // The numbers at the end of the names, by prefix and width. Width 0: numbers without padding.
    std::map<std::pair<std::string, size_t>, std::set<i64>> groups;
    for (const std::string& name : hosts) {
        const Numbered n = split(name);
        const bool fills = padded.contains({n.prefix, n.width});
        groups[{n.prefix, fills ? n.width : 0}].insert(n.number);
    }
    std::vector<std::string> parts;
    size_t n_runs = 0;
    size_t n_omitted = 0;
    for (const auto& [key, numbers] : groups) {
        const auto& [prefix, width] = key;
        std::vector<std::string> runs;
        for (auto first = numbers.begin(); first != numbers.end();) {
            auto end = std::next(first);
            i64 last = *first;
            while (end != numbers.end() && *end == last + 1) last = *end++;
            if (n_runs++ < max_runs) {
                runs.push_back(fmt::format("{:0{}}", *first, width));
                if (last > *first) runs.back() += fmt::format("-{:0{}}", last, width);
            } else {
                n_omitted += static_cast<size_t>(last - *first + 1);
            }
            first = end;
        }
        if (runs.empty()) continue;
        if (*numbers.begin() < 0) {
            parts.push_back(prefix);
        } else if (numbers.size() == 1) {
            parts.push_back(prefix + runs[0]);
        } else {
            parts.push_back(fmt::format("{}[{}]", prefix, fmt::join(runs, ",")));
        }
    }
    std::string text = fmt::format("{}", fmt::join(parts, ","));
    if (n_omitted > 0) text += fmt::format(" and {} more", n_omitted);
    return text;
}

}  // namespace lm::cluster
