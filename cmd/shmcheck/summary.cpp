// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/units.hpp"
#include "io/json.hpp"

namespace lm::shmcheck {
namespace {

constexpr const char* source = "standard input";

struct Host {
    std::string health;
    std::string reason;
    i64 size = 0;
    i64 dead_segments = 0;
    i64 dead_bytes = 0;
};

using Hosts = std::map<std::string, Host>;

Hosts read_hosts(std::istream& lines) {
    Hosts hosts;
    std::string line;
    for (i64 number = 1; std::getline(lines, line); ++number) {
        if (line.empty()) continue;
        const std::string place = fmt::format("{}: line {}", source, number);
        const io::Json json = io::parse_json(line, place);
        if (io::json_get<std::string>(json, "kind", place) != "host") continue;
        hosts[io::json_get<std::string>(json, "host", place)] = {
            .health = io::json_get<std::string>(json, "health", place),
            .reason = io::json_get<std::string>(json, "reason", place),
            .size = io::json_get<i64>(json, "size", place),
            .dead_segments = io::json_get<i64>(json, "dead_segments", place),
            .dead_bytes = io::json_get<i64>(json, "dead_bytes", place)};
    }
    if (hosts.empty())
        run_error(source, "contains no host: pipe the output of lm-shmcheck --json into it");
    return hosts;
}

std::string hosts_text(size_t n) {
    return fmt::format("{} host{}", n, n == 1 ? "" : "s");
}

// Returns one line for each group of hosts. Hosts are grouped by their reason without its leading
// share: "97.0 % of its bytes are used (critical from 95 %)".
std::string thresholds_text(const Hosts& hosts, std::string_view health) {
    struct Same {
        double highest = 0;
        std::vector<std::string> hosts;
    };
    std::map<std::string, Same> found;
    for (const auto& [name, host] : hosts) {
        if (host.health != health) continue;
        char* rest = nullptr;
        const double share = std::strtod(host.reason.c_str(), &rest);
        Same& same = found[rest];
        same.highest = std::max(same.highest, share);
        same.hosts.push_back(name);
    }
    std::string text;
    for (const auto& [what, same] : found) {
        text += fmt::format("{}: {}, up to {:.1f}{}: {}\n", health, hosts_text(same.hosts.size()),
                            same.highest, what, host_list(same.hosts));
    }
    return text;
}

std::string dead_text(const Hosts& hosts) {
    std::vector<std::string> names;
    i64 n = 0;
    i64 bytes = 0;
    for (const auto& [name, host] : hosts) {
        if (host.dead_segments == 0) continue;
        names.push_back(name);
        n += host.dead_segments;
        bytes += host.dead_bytes;
    }
    if (names.empty()) return "";
    return fmt::format("dead segments: {}, {} of {}: {}\n", hosts_text(names.size()), n,
                       human_size(bytes), host_list(names));
}

// Returns one line for each size of shared memory that differs from the size on most hosts.
std::string sizes_text(const Hosts& hosts) {
    std::map<i64, std::vector<std::string>> by_size;
    for (const auto& [name, host] : hosts) by_size[host.size].push_back(name);
    const auto usual =
        std::ranges::max_element(by_size, {}, [](const auto& item) { return item.second.size(); });
    std::string text;
    for (const auto& [size, names] : by_size) {
        if (size == usual->first) continue;
        text += fmt::format("size: {} with {}, {} with {}: {}\n", hosts_text(names.size()),
                            human_size(size), hosts_text(usual->second.size()),
                            human_size(usual->first), host_list(names));
    }
    return text;
}

// A host name, divided into its prefix and the number at its end. host_list() merges names with the
// same prefix.
struct Numbered {
    std::string prefix;
    size_t width = 0;     // digits of the number
    bool padded = false;  // the number has leading zeros
    i64 number = -1;      // -1: none
};

Numbered split(const std::string& name) {
    constexpr size_t most_digits = 9;
    size_t at = name.size();
    while (at > 0 && name.size() - at < most_digits && name[at - 1] >= '0' && name[at - 1] <= '9') {
        --at;
    }
    if (at == name.size()) return {name};
    const std::string digits = name.substr(at);
    return {name.substr(0, at), digits.size(), digits[0] == '0',
            std::strtoll(digits.c_str(), nullptr, 10)};
}

}  // namespace

std::string host_list(std::vector<std::string> hosts) {
    constexpr size_t most_runs = 40;
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
            if (n_runs++ < most_runs) {
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

Summary summary_of(std::istream& json_lines) {
    const Hosts hosts = read_hosts(json_lines);
    const auto n_with = [&](std::string_view health) {
        return std::ranges::count(hosts, health, [](const auto& item) -> const std::string& {
            return item.second.health;
        });
    };
    Summary summary;
    summary.text = fmt::format("{}: {} ok, {} warning, {} critical\n", hosts_text(hosts.size()),
                               n_with("ok"), n_with("warning"), n_with("critical"));
    summary.text += thresholds_text(hosts, "critical") + thresholds_text(hosts, "warning");
    const std::string dead = dead_text(hosts);
    summary.text += dead + sizes_text(hosts);
    summary.healthy = n_with("ok") == static_cast<i64>(hosts.size());
    summary.has_dead = !dead.empty();
    return summary;
}

}  // namespace lm::shmcheck
