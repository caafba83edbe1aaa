// SPDX-License-Identifier: Apache-2.0
#include "cluster/host_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.hpp"
#include "base/host_list.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "io/json.hpp"

namespace lm::cluster {
namespace {

constexpr const char* source = "standard input";

using Host = HostLines::Host;
using Hosts = std::map<std::string, Host>;
using Nodes = std::map<std::string, std::vector<std::string>>;

std::string hosts_text(size_t n) {
    return fmt::format("{} host{}", n, n == 1 ? "" : "s");
}

// Groups the hosts whose reasons differ only in the number at the start, such as "97.0 % of its
// bytes are used (critical from 95 %)". Returns one line for each group.
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
    return fmt::format("dead segments: {}, {} with {}: {}\n", hosts_text(names.size()), n,
                       human_size(bytes), host_list(names));
}

// Returns the number of outliers of lm-shmcheck --node, their findings, and the option --exclude
// for sbatch.
std::string nodes_text(const Nodes& nodes, const std::vector<std::string>& of_job) {
    if (nodes.empty()) return "";
    std::vector<std::string> outliers;
    std::string findings;
    for (const std::string& text : of_job) findings += text + "\n";
    for (const auto& [host, texts] : nodes) {
        if (!texts.empty()) outliers.push_back(host);
        for (const std::string& text : texts) findings += fmt::format("{}: {}\n", host, text);
    }
    std::string text = fmt::format("node check: {}, {} with findings\n{}", hosts_text(nodes.size()),
                                   outliers.size(), findings);
    if (outliers.empty()) return text;
    return text + fmt::format("--exclude={}\n", host_list(outliers, outliers.size()));
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

i64 n_with(const Hosts& hosts, std::string_view health) {
    return std::ranges::count(
        hosts, health, [](const auto& item) -> const std::string& { return item.second.health; });
}

std::string hosts_summary(const Hosts& hosts) {
    return fmt::format("{}: {} ok, {} warning, {} critical\n", hosts_text(hosts.size()),
                       n_with(hosts, "ok"), n_with(hosts, "warning"), n_with(hosts, "critical")) +
           thresholds_text(hosts, "critical") + thresholds_text(hosts, "warning") +
           dead_text(hosts) + sizes_text(hosts);
}

// Returns the expected hosts that sent no line.
std::string missing_text(const ExpectedHosts& expected, const Hosts& hosts, const Nodes& nodes) {
    std::vector<std::string> missing;
    for (const std::string& name : expected.names) {
        if (!hosts.contains(name) && !nodes.contains(name)) missing.push_back(name);
    }
    if (!missing.empty())
        return fmt::format("missing: {}: {}\n", hosts_text(missing.size()), host_list(missing));
    const i64 found = static_cast<i64>(hosts.empty() ? nodes.size() : hosts.size());
    if (found >= expected.n) return "";
    return fmt::format("missing: {} of {}\n", expected.n - found,
                       hosts_text(static_cast<size_t>(expected.n)));
}

}  // namespace

bool HostLines::add(std::string_view line) {
    ++n_lines_;
    if (line.empty() || add_table_line(line)) return true;
    const size_t label = std::min(line.find_first_not_of(' '), line.size());
    const size_t colon = std::min(line.find_first_not_of("0123456789", label), line.size());
    if (colon > label && line.substr(colon).starts_with(": ")) {
        return add_part(line.substr(label, colon - label), line.substr(colon + 2));
    }
    return add_json_line(line);
}

bool HostLines::add_part(std::string_view label, std::string_view part) {
    std::string& line = partial_[std::string(label)];
    if (line.empty() && !part.starts_with('{')) return false;
    // The rest of the previous line never came: its host died while it wrote.
    if (part.starts_with("{\"kind\"")) line.clear();
    line += part;
    const io::Json json = line.ends_with('}') ? io::json_or_null(line) : io::Json();
    if (json.is_null()) return true;
    line.clear();
    add_json(json, place());
    return true;
}

void HostLines::finish() const {
    for (const auto& [label, line] : partial_) {
        if (line.empty()) continue;
        run_error(source, "the line of task {} is incomplete: {}...", label, line.substr(0, 80));
    }
}

std::string HostLines::place() const {
    return fmt::format("{}: line {}", source, n_lines_);
}

bool HostLines::add_json_line(std::string_view line) {
    if (line.front() != '{') return false;
    const io::Json json = io::json_or_null(line);
    if (json.is_null()) {
        run_error(place(), "is not valid JSON; for the output of several tasks, use srun --label");
    }
    add_json(json, place());
    return true;
}

// Stores a line of the output of lm-shmcheck --node. Returns false when the line does not belong to
// this output. The output is a table of states with a line for each host, tables of speeds and
// GPUs, the findings as "HOST: TEXT", and a last line ("no outliers" or "--exclude=...").
bool HostLines::add_table_line(std::string_view line) {
    if (line.starts_with("HOST ")) {
        table_ = line.find(" HUGEPAGE ") != line.npos ? Table::states : Table::other;
        return true;
    }
    if (table_ == Table::none || line.front() == '{') return false;
    const size_t colon = line.find(": ");
    if (line == "no outliers" || line.starts_with("--exclude=")) {
        table_ = Table::none;
    } else if (line.starts_with("on every host: ")) {
        of_job_.emplace_back(line);
    } else if (const auto node = nodes_.find(std::string(line.substr(0, colon)));
               colon != line.npos && node != nodes_.end()) {
        node->second.emplace_back(line.substr(colon + 2));
    } else if (table_ == Table::states) {
        nodes_[std::string(line.substr(0, line.find(' ')))].clear();
    }
    return true;
}

void HostLines::add_json(const io::Json& json, const std::string& place) {
    // A text of another host that contains a newline must not look like a line of the summary.
    const auto text = [&](const char* key) {
        return printable(io::json_get<std::string>(json, key, place));
    };
    const auto findings = [&] {
        auto texts = io::json_get<std::vector<std::string>>(json, "findings", place);
        std::ranges::transform(texts, texts.begin(), printable);
        return texts;
    };
    const auto kind = io::json_get<std::string>(json, "kind", place);
    if (kind == "node") {
        nodes_[text("host")] = findings();
    }
    if (kind == "job") {
        of_job_ = findings();
    }
    if (kind != "host") return;
    hosts_[text("host")] = {.health = text("health"),
                            .reason = text("reason"),
                            .size = io::json_get<i64>(json, "size", place),
                            .dead_segments = io::json_get<i64>(json, "dead_segments", place),
                            .dead_bytes = io::json_get<i64>(json, "dead_bytes", place)};
}

HostSummary HostLines::summary(const ExpectedHosts& expected) const {
    HostSummary summary;
    if (!hosts_.empty()) summary.text = hosts_summary(hosts_);
    const std::string missing = missing_text(expected, hosts_, nodes_);
    summary.text += missing + nodes_text(nodes_, of_job_);
    summary.healthy = missing.empty() && of_job_.empty() &&
                      n_with(hosts_, "ok") == static_cast<i64>(hosts_.size()) &&
                      std::ranges::all_of(nodes_, [](const auto& n) { return n.second.empty(); });
    summary.has_dead = !dead_text(hosts_).empty();
    return summary;
}

}  // namespace lm::cluster
