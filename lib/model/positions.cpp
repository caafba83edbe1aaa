// SPDX-License-Identifier: Apache-2.0
#include "model/positions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lm::model {

std::vector<float> rotary_angles(i64 n_positions, i64 rotary_dim,
                                 const spec::RotaryFrequencies& rotary, i64 length) {
    const i64 half = rotary_dim / 2;
    const std::vector<double> frequencies = spec::frequencies(rotary, rotary_dim, length);
    const double factor = spec::attention_factor(rotary.scaling);
    std::vector<float> angles(static_cast<size_t>(n_positions * rotary_dim));
    for (i64 position = 0; position < n_positions; ++position) {
        for (i64 i = 0; i < half; ++i) {
            const double angle =
                static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
            const auto at = static_cast<size_t>(position * rotary_dim + i);
            angles[at] = static_cast<float>(factor * std::cos(angle));
            angles[at + static_cast<size_t>(half)] = static_cast<float>(factor * std::sin(angle));
        }
    }
    return angles;
}

std::vector<float> query_scales(i64 n_positions, i64 width, const spec::RotaryFrequencies& rotary) {
    std::vector<float> scales(static_cast<size_t>(n_positions * width));
    for (i64 position = 0; position < n_positions; ++position) {
        std::fill_n(scales.begin() + position * width, width / 2,
                    static_cast<float>(spec::query_scale(rotary, position)));
    }
    return scales;
}

std::vector<float> alibi_slopes(i64 n_heads) {
    const auto power = static_cast<i64>(std::bit_floor(static_cast<u64>(n_heads)));
    const auto slope = [](i64 number, i64 of) {
        return static_cast<float>(
            std::exp2(-8.0 * static_cast<double>(number) / static_cast<double>(of)));
    };
    std::vector<float> slopes;
    for (i64 i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
    for (i64 i = 1; i <= n_heads - power; ++i) slopes.push_back(slope(2 * i - 1, 2 * power));
    return slopes;
}

void write_position_constants(const spec::ModelConfig& config, device::Device& device,
                              const Scratch& scratch) {
    const std::vector<spec::RotaryFrequencies> tables = spec::rotary_frequencies(config);
    for (i64 i = 0; i < std::ssize(tables); ++i) {
        const spec::RotaryFrequencies& rotary = tables[static_cast<size_t>(i)];
        const i64 n = scratch.rotary_angles[0] / std::ssize(tables);
        const std::vector<float> angles = rotary_angles(n, config.rotary_dim(), rotary, n);
        device.copy_from_host(scratch.rotary_angles.rows(i * n, (i + 1) * n), angles.data());
        if (rotary.query_beta == 0) continue;
        const View& scales = scratch.query_scales;
        device.copy_from_host(scales, query_scales(n, scales[1], rotary).data());
    }
    if (const View& view = scratch.alibi_slopes) {
        device.copy_from_host(view, alibi_slopes(config.n_heads).data());
    }
}

void limit_to_window(std::span<i32> starts, i64 seq_length, i64 window) {
    if (window == 0) return;
    for (size_t i = 0; i < starts.size(); ++i) {
        const i64 query = static_cast<i64>(i) % seq_length;
        starts[i] = std::max(starts[i], static_cast<i32>(std::max<i64>(query - window + 1, 0)));
    }
}

void write_positions(device::Device& device, const MicroBatchInputs& inputs,
                     std::span<const i64> windows) {
    if (const View& positions = inputs.positions) {
        std::vector<i32> host(static_cast<size_t>(positions.numel()));
        for (size_t i = 0; i < host.size(); ++i) {
            host[i] = static_cast<i32>(static_cast<i64>(i) % positions[1]);
        }
        device.copy_from_host(positions, host.data());
    }
    if (const View& order = inputs.position_order) {
        const i64 n = order[0];
        const i64 n_samples = inputs.positions[0];
        std::vector<i32> host(static_cast<size_t>(n));
        for (i64 i = 0; i < n; ++i) {
            host[static_cast<size_t>(i)] =
                static_cast<i32>(i % n_samples * inputs.positions[1] + i / n_samples);
        }
        device.copy_from_host(order, host.data());
    }
    if (!inputs.doc_start) return;
    const std::vector<i32> zeros(
        static_cast<size_t>(inputs.doc_start.numel() / std::ssize(windows)));
    copy_starts(device, inputs.doc_start, zeros, windows);
}

void copy_starts(device::Device& device, const View& doc_start, std::span<const i32> starts,
                 std::span<const i64> windows) {
    if (!doc_start || starts.empty()) return;
    const i64 n_samples = doc_start[0] / std::ssize(windows);
    thread_local std::vector<i32> limited;  // a step allocates nothing
    for (i64 i = 0; i < std::ssize(windows); ++i) {
        limited.assign(starts.begin(), starts.end());
        limit_to_window(limited, doc_start[1], windows[static_cast<size_t>(i)]);
        device.copy_from_host(doc_start.rows(i * n_samples, (i + 1) * n_samples), limited.data());
    }
}

}  // namespace lm::model
