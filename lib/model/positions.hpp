// SPDX-License-Identifier: Apache-2.0
// Position information of attention that is computed, not learned: rotary angles and ALiBi slopes.
// They are constants of the model and are written to the scratch memory once.
#pragma once

#include <vector>

#include "model/pass.hpp"

namespace lm::model {

// Returns [n_positions, D] with D = head_dim. The row of a position has D/2 cosines, then D/2
// sines, of the angles position * base^(-2i/D) (Su et al. 2021, "RoFormer", section 3.2.2).
std::vector<float> rotary_angles(i64 n_positions, i64 head_dim, double base);

// Returns one slope for each head (Press et al. 2022, "Train short, test long", section 3 and the
// authors' code). For n = 2^k heads the slopes are 2^(-8/n), 2^(-16/n), ... For other n they are
// the slopes of the largest power of two below n, then every second slope of the next power.
std::vector<float> alibi_slopes(i64 n_heads);

// Writes the constants for which `scratch` has views. The first ALiBi slope is the slope of global
// head `first_head`.
void write_position_constants(const spec::ModelConfig& config, i64 first_head,
                              device::Device& device, const Scratch& scratch);

// Writes 0 to T - 1 to each row. positions: [B, T] int32, or none.
void write_positions(device::Device& device, const View& positions);

}  // namespace lm::model
