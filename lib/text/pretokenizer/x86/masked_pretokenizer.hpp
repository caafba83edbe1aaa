// SPDX-License-Identifier: Apache-2.0
// The rules of llama3, qwen2 and bloom at several times the speed: blocks of ASCII by
// ascii_blocks.hpp, other text by the walks of rules.hpp with a reader that skips runs of a class
// by bit masks (char_masks.hpp).
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

// For llama3, qwen2 and bloom. Requires has_avx2_pretokenizers().
std::unique_ptr<Pretokenizer> make_masked_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
