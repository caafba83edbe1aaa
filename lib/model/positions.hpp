// SPDX-License-Identifier: Apache-2.0
// What attention knows of positions besides learned tables: constants of the model, written into
// the activation buffer once.
#pragma once

#include <vector>

#include "model/pass.hpp"

namespace lm::model {

// For each position D/2 cosines, then D/2 sines, of position * base^(-2i/D) (Su et al. 2021,
// "RoFormer", section 3.2.2).
std::vector<float> rotary_angles(i64 n_positions, i64 head_dim, double base);

// One slope per head, for any number of heads (Press et al. 2022, "Train short, test long",
// section 3 and the authors' code): for n = 2^k heads 2^(-8/n), 2^(-16/n), ...; otherwise those of
// the largest power of two below n, then every other one of the next power.
std::vector<float> alibi_slopes(i64 n_heads);

// Fills the constants that `scratch` has, of the heads from `first_head` on.
void write_position_constants(const spec::ModelConfig& config, i64 first_head,
                              device::Device& device, const Scratch& scratch);

}  // namespace lm::model
