// SPDX-License-Identifier: Apache-2.0
// A CharReader that jumps over runs of one class by bit masks of the text (char_masks.hpp),
// made for a window of it at a time: the walks of rules.hpp at several times the speed.
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

// For llama3, qwen2 and bloom, on machines where has_avx2_pretokenizers().
std::unique_ptr<Pretokenizer> make_masked_pretokenizer(PretokenizerRule rule);

}  // namespace lm::text
