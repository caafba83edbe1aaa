// SPDX-License-Identifier: Apache-2.0
// The normalization of a model's layers.
#pragma once

#include <array>
#include <string_view>

#include "base/named.hpp"

namespace lm::spec {

// LayerNorm (Ba et al. 2016) or RMSNorm (Zhang and Sennrich 2019), which has no mean and no bias.
enum class Normalization { layer_norm, rms_norm };
inline constexpr std::array normalizations{Named{Normalization::layer_norm, "LayerNorm"},
                                           Named{Normalization::rms_norm, "RMSNorm"}};

std::string_view name_of(Normalization value);

}  // namespace lm::spec
