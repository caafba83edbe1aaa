// SPDX-License-Identifier: Apache-2.0
// Implements the rules llama3, qwen2 and bloom at several times the speed of pretoken_rules.hpp.
// Cuts blocks of ASCII by bit operations. Cuts other text by the functions of pretoken_rules.hpp,
// with a reader that skips runs of a class by bit masks (char_masks.hpp).
#pragma once

#include <memory>

#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

namespace lm::text {

// `rule` is llama3, qwen2 or bloom. Requires has_avx2_pretokenizers().
std::unique_ptr<Pretokenizer> make_masked_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
