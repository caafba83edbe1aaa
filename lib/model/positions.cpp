// SPDX-License-Identifier: Apache-2.0
#include "model/positions.hpp"

#include <bit>
#include <cmath>

namespace lm::model {

std::vector<float> rotary_angles(i64 n_positions, i64 head_dim, double base) {
    const i64 half = head_dim / 2;
    std::vector<float> angles(static_cast<size_t>(n_positions * head_dim));
    for (i64 position = 0; position < n_positions; ++position) {
        for (i64 i = 0; i < half; ++i) {
            const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
            const double angle = static_cast<double>(position) * std::pow(base, exponent);
            const auto at = static_cast<size_t>(position * head_dim + i);
            angles[at] = static_cast<float>(std::cos(angle));
            angles[at + static_cast<size_t>(half)] = static_cast<float>(std::sin(angle));
        }
    }
    return angles;
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

void write_position_constants(const spec::ModelConfig& config, i64 first_head,
                              device::Device& device, const Scratch& scratch) {
    if (const View& view = scratch.rotary_angles) {
        device.copy_from_host(view,
                              rotary_angles(view[0], config.head_dim, config.rotary_base).data());
    }
    if (const View& view = scratch.alibi_slopes) {
        device.copy_from_host(view, alibi_slopes(config.n_heads).data() + first_head);
    }
}

void write_positions(device::Device& device, const View& positions) {
    if (!positions) return;
    std::vector<i32> host(static_cast<size_t>(positions.numel()));
    for (size_t i = 0; i < host.size(); ++i) {
        host[i] = static_cast<i32>(static_cast<i64>(i) % positions[1]);
    }
    device.copy_from_host(positions, host.data());
}

}  // namespace lm::model
