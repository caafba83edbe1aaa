// SPDX-License-Identifier: Apache-2.0
#include "cost/roofline.hpp"

#include <algorithm>
#include <cmath>

#include "base/types.hpp"

namespace lm::cost {

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
