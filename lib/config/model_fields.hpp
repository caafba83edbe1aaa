// SPDX-License-Identifier: Apache-2.0
// The tables of the fields of a model. Their rows with Block::model have the same keys as the JSON
// of ckpt::to_json(ModelConfig).
#pragma once

#include <array>
#include <string_view>

#include "base/named.hpp"
#include "config/model_flags.hpp"

namespace lm::config {

// Megatron's name for --position-embedding-type absolute.
constexpr std::string_view learned_absolute = "learned_absolute";
// Names of Megatron-DeepSpeed for rope and for the normalizations.
constexpr std::string_view rotary = "rotary";
// Megatron's name for rope with spec::RotaryRule::yarn.
constexpr std::string_view yarn = "yarn";
inline constexpr std::array deepspeed_normalizations{
    Named{spec::Normalization::layer_norm, "layernorm"},
    Named{spec::Normalization::rms_norm, "rmsnorm"}};

const Fields<ModelFlags>& shape_fields();    // sizes
const Fields<ModelFlags>& kind_fields();     // kinds of layers
const Fields<ModelFlags>& initial_fields();  // dropout, seed, initial weights and vocabulary

}  // namespace lm::config
