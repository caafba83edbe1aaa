// SPDX-License-Identifier: Apache-2.0
#include "cost/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "base/error.hpp"
#include "base/types.hpp"
#include "base/units.hpp"

namespace lm::cost {

namespace {

// A key, its member and the valid range of its value. The range detects values in a wrong unit,
// such as GB instead of bytes.
struct Key {
    std::string_view name;
    double least;
    double most;
};
constexpr std::array hardware_keys = {Key{"matmul_flops", 1e9, 1e17},
                                      Key{"fp32_flops", 1e9, 1e17},
                                      Key{"sms", 1, 1e4},
                                      Key{"memory_bytes_per_s", 1e9, 1e15},
                                      Key{"memory_bytes", 1e9, 1e13},
                                      Key{"gpus_per_node", 1, 1e4},
                                      Key{"node_bytes_per_s", 1e8, 1e14},
                                      Key{"node_latency_s", 0, 1},
                                      Key{"network_bytes_per_s", 1e8, 1e14},
                                      Key{"network_latency_s", 0, 1},
                                      Key{"nics", 1, 1e3},
                                      Key{"watts", 1, 1e5},
                                      Key{"matmul_fraction", 0.01, 1},
                                      Key{"attention_fraction", 0.01, 1},
                                      Key{"memory_fraction", 0.01, 1}};
constexpr std::array network_keys = {Key{"link_bytes_per_s", 1e8, 1e14},
                                     Key{"link_latency_s", 0, 1}};

std::string_view trimmed(std::string_view text) {
    const size_t start = text.find_first_not_of(" \t\r");
    if (start == text.npos) return {};
    return text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

using Values = std::map<std::string_view, double>;

void add_line(Values& values, std::span<const Key> keys, const std::string& place,
              std::string_view line) {
    const size_t hash = line.find('#');
    const std::string_view source = hash == line.npos ? "" : trimmed(line.substr(hash + 1));
    const std::string_view text = trimmed(line.substr(0, hash));
    if (text.empty()) return;
    const size_t space = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view name = text.substr(0, space);
    const auto key = std::ranges::find(keys, name, &Key::name);
    if (key == keys.end())
        usage_error(place, "unknown key '{}': use the keys of the files in share/hardware", name);
    const double value =
        parse_number(fmt::format("{}: {}", place, name), trimmed(text.substr(space)));
    if (value < key->least || value > key->most) {
        usage_error(place, "{} {} is out of range: must be from {} to {} in base units", name,
                    value, key->least, key->most);
    }
    if (source.empty())
        usage_error(place, "{} has no source: write the source of the value after '#'", name);
    if (!values.emplace(key->name, value).second) usage_error(place, "duplicate key '{}'", name);
}

// Parses a file that must have each of `keys` once.
Values parse_values(const std::string& path, std::string_view text, std::span<const Key> keys) {
    Values values;
    for (i64 number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        add_line(values, keys, fmt::format("{}:{}", path, number), text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const Key& key : keys) {
        if (!values.contains(key.name)) usage_error(path, "missing key '{}'", key.name);
    }
    return values;
}

}  // namespace

Link parse_network(const std::string& path, std::string_view text) {
    Values values = parse_values(path, text, network_keys);
    return {values["link_bytes_per_s"], values["link_latency_s"]};
}

Hardware parse_hardware(const std::string& path, std::string_view text) {
    Values values = parse_values(path, text, hardware_keys);
    const auto whole = [&](std::string_view name) {
        return static_cast<i64>(std::llround(values[name]));
    };
    std::string_view name = path;
    name.remove_prefix(name.find_last_of('/') + 1);
    return {.name = std::string(name.substr(0, name.find_last_of('.'))),
            .matmul_flops = values["matmul_flops"],
            .fp32_flops = values["fp32_flops"],
            .sms = whole("sms"),
            .memory_bytes_per_s = values["memory_bytes_per_s"],
            .memory_bytes = whole("memory_bytes"),
            .gpus_per_node = whole("gpus_per_node"),
            .node = {values["node_bytes_per_s"], values["node_latency_s"]},
            .network = {values["network_bytes_per_s"], values["network_latency_s"]},
            .nics = whole("nics"),
            .watts = values["watts"],
            .matmul_fraction = values["matmul_fraction"],
            .attention_fraction = values["attention_fraction"],
            .memory_fraction = values["memory_fraction"]};
}

double product_seconds(const Hardware& gpu, DType dtype, double m, double n, double k) {
    const double tiles = std::ceil(m / 256) * std::ceil(n / 128);
    const double slots = std::ceil(tiles / as_double(gpu.sms)) * as_double(gpu.sms);
    const double used = std::max(0.3, m * n / (slots * 256 * 128));
    const double rate = gpu.flops(dtype) * gpu.matmul_fraction * std::sqrt(used);
    const double compute_s = 2 * m * n * k / rate * (1 + 100 / k);
    const double bytes = as_double(size_of(dtype)) * (m * k + k * n + m * n);
    return std::max(compute_s, stream_seconds(gpu, bytes));
}

double stream_seconds(const Hardware& gpu, double bytes) {
    return bytes / (gpu.memory_bytes_per_s * gpu.memory_fraction);
}

double link_rate(const Hardware& gpu, const RankGroup& group) {
    if (group.in_node()) return gpu.node.bytes_per_s;
    const double rails = std::min(group.per_node, as_double(gpu.nics));
    return std::min(gpu.network.bytes_per_s / group.sharing,
                    gpu.network.bytes_per_s * rails / as_double(gpu.nics));
}

double ring_seconds(const Hardware& gpu, const RankGroup& group, double bytes) {
    if (group.n <= 1) return 0;
    const double latency_s = (group.nodes() - 1) * gpu.network.latency_s +
                             (group.n - group.nodes()) * gpu.node.latency_s;
    return (group.n - 1) / group.n * bytes / link_rate(gpu, group) + latency_s;
}

double all_reduce_seconds(const Hardware& gpu, const RankGroup& group, double bytes) {
    const double ring_s = 2 * ring_seconds(gpu, group, bytes);
    if (group.in_node()) return ring_s;
    constexpr double tree_efficiency = 0.92;
    const double latency_s = std::log2(group.nodes()) * gpu.network.latency_s +
                             (group.per_node - 1) * gpu.node.latency_s;
    const double tree_s = 2 * (bytes / (tree_efficiency * link_rate(gpu, group)) + latency_s);
    return std::min(ring_s, tree_s);
}

}  // namespace lm::cost
