// SPDX-License-Identifier: Apache-2.0
#include "base/host_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/types.hpp"

namespace lm {
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

// Slurm's own limit for the numbers of one range, and the longest name that DNS can have.
constexpr size_t most_hosts = 65'536;
constexpr size_t longest_name = 253;

std::optional<i64> whole_number(std::string_view text) {
    i64 value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end || value < 0) return std::nullopt;
    return value;
}

// Appends the hosts of `item`, each with `prefix` before its name. `item` is a name that may
// contain lists of ranges in brackets, such as "r[1-2]n[0-3,7]". Returns false when `item` is not
// valid.
bool expand_item(const std::string& prefix, std::string_view item,
                 std::vector<std::string>& hosts) {
    const size_t open = item.find('[');
    if (prefix.size() + std::min(open, item.size()) > longest_name) return false;
    if (open == item.npos) {
        if (item.find(']') != item.npos || prefix.size() + item.size() == 0) return false;
        if (hosts.size() == most_hosts) return false;
        hosts.push_back(prefix + std::string(item));
        return true;
    }
    const size_t close = item.find(']', open);
    if (close == item.npos) return false;
    std::string_view ranges = item.substr(open + 1, close - open - 1);
    const std::string before = prefix + std::string(item.substr(0, open));
    while (true) {
        const size_t comma = ranges.find(',');
        const std::string_view range = ranges.substr(0, comma);
        const std::string_view first_digits = range.substr(0, range.find('-'));
        const std::optional<i64> first = whole_number(first_digits);
        const std::optional<i64> last = first_digits.size() == range.size()
                                            ? first
                                            : whole_number(range.substr(first_digits.size() + 1));
        if (!first || !last || *first > *last) return false;
        for (i64 n = *first; n <= *last; ++n) {
            const std::string name = fmt::format("{}{:0{}}", before, n, first_digits.size());
            if (!expand_item(name, item.substr(close + 1), hosts)) return false;
        }
        if (comma == ranges.npos) return true;
        ranges.remove_prefix(comma + 1);
    }
}

}  // namespace

std::string host_list(const std::vector<std::string>& hosts, size_t max_runs) {
    std::set<std::pair<std::string, size_t>> padded;
    for (const std::string& name : hosts) {
        if (const Numbered n = split(name); n.padded) padded.insert({n.prefix, n.width});
    }
    // The numbers of the hosts. The key is the prefix, the width to which numbers are padded (0:
    // not padded), and whether the names end with a number.
    std::map<std::tuple<std::string, size_t, bool>, std::set<i64>> groups;
    for (const std::string& name : hosts) {
        const Numbered n = split(name);
        const bool fills = padded.contains({n.prefix, n.width});
        groups[{n.prefix, fills ? n.width : 0, n.number >= 0}].insert(n.number);
    }
    std::vector<std::string> parts;
    size_t n_runs = 0;
    size_t n_omitted = 0;
    for (const auto& [key, numbers] : groups) {
        const auto& [prefix, width, has_number] = key;
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
        if (!has_number) {
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

std::optional<std::vector<std::string>> expand_hosts(std::string_view list) {
    std::vector<std::string> hosts;
    size_t begin = 0;
    bool inside = false;
    for (size_t at = 0; at <= list.size(); ++at) {
        const char c = at < list.size() ? list[at] : ',';
        if (c == '[') inside = true;
        if (c == ']') inside = false;
        if (c != ',' || (inside && at < list.size())) continue;
        if (!expand_item("", list.substr(begin, at - begin), hosts)) return std::nullopt;
        begin = at + 1;
    }
    return hosts;
}

}  // namespace lm
