// SPDX-License-Identifier: Apache-2.0
// The position information of attention that is computed and not learned: rotary angles and ALiBi
// slopes. These are constants of the model, and are written to the scratch memory once.
#pragma once

#include <span>
#include <vector>

#include "model/pass.hpp"

namespace lm::model {

// Returns [n_positions, E] with E = rotary_dim, the rotated elements of a head. The row of a
// position has E/2 cosines, then E/2 sines, of the angles position * frequency (Su et al. 2021,
// "RoFormer", section 3.2.2), times spec::attention_factor(), in sequences of `length` tokens
// (spec::frequencies()).
std::vector<float> rotary_angles(i64 n_positions, i64 rotary_dim,
                                 const spec::RotaryFrequencies& rotary, i64 length);

// Returns [n_positions, width]: angles of 0 whose cosines are spec::query_scale(), so that a
// rotation by them scales a query by its position.
std::vector<float> query_scales(i64 n_positions, i64 width, const spec::RotaryFrequencies& rotary);

// Returns one slope for each head (Press et al. 2022, "Train short, test long", section 3 and the
// authors' code). For n = 2^k heads the slopes are 2^(-8/n), 2^(-16/n), ... For any other n, the
// slopes are the slopes for the largest power of two below n, followed by every second slope of the
// next power of two.
std::vector<float> alibi_slopes(i64 n_heads);

// Writes the constants for which `scratch` has views.
void write_position_constants(const spec::ModelConfig& config, device::Device& device,
                              const Scratch& scratch);

// Applies an attention window: raises the first key of query t to at least t - window + 1. starts:
// B samples of T = seq_length tokens. A window of 0 is no limit.
void limit_to_window(std::span<i32> starts, i64 seq_length, i64 window);

// Writes the inputs that a batch without positions and first keys needs: positions 0 to T - 1 with
// their order, and the first keys of the windows (spec::windows()).
void write_positions(device::Device& device, const MicroBatchInputs& inputs,
                     std::span<const i64> windows);

// Copies `starts`, the first keys of a batch's queries, limited to each window (spec::windows()).
// Does nothing for a batch without first keys.
// doc_start: [windows * B, T] int32 or none; starts: B * T or none.
void copy_starts(device::Device& device, const View& doc_start, std::span<const i32> starts,
                 std::span<const i64> windows);

}  // namespace lm::model
