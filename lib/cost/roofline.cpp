// SPDX-License-Identifier: Apache-2.0
#include "cost/roofline.hpp"

#include <algorithm>
#include <cmath>

#include "base/as_double.hpp"

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

double ring_seconds(const Hardware& gpu, const Ring& ring, double bytes) {
    if (ring.n <= 1) return 0;
    const Link& link = ring.in_node ? gpu.node : gpu.network;
    const double rate = link.bytes_per_s / (ring.in_node ? 1 : ring.sharing);
    return (ring.n - 1) / ring.n * bytes / rate + (ring.n - 1) * link.latency_s;
}

}  // namespace lm::cost
