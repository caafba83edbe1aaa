// SPDX-License-Identifier: Apache-2.0
// A CharReader that jumps over runs of one class by bit masks of the text (char_masks_avx2.hpp),
// made for a window of it at a time: the walks of split_rules.hpp at several times the speed.
#pragma once

#include <memory>

#include "text/splitter.hpp"

namespace lm::text {

// For llama3, qwen2 and bloom, on machines where has_vector_splitter().
std::unique_ptr<Splitter> make_masked_splitter(SplitRule rule);

}  // namespace lm::text
