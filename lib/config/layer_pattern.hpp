// SPDX-License-Identifier: Apache-2.0
// The text form of a choice of layers.
#pragma once

#include <string>
#include <string_view>

#include "spec/layer_pattern.hpp"

namespace lm::config {

// Returns the layers of a number N (layers N, 2N, ...) or of a list of 0 and 1 for each layer, such
// as [1,1,0] or ([1]*3+[0])*2, as Megatron-LM takes them. `marks`: the entry of a chosen layer.
// Throws Error(usage) naming `flag` for any other text.
spec::LayerPattern parse_layer_pattern(std::string_view flag, std::string_view text, bool marks);

// Returns the text from which parse_layer_pattern() makes the pattern; empty for no layers.
std::string text_of(const spec::LayerPattern& pattern, bool marks);

}  // namespace lm::config
