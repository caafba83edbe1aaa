// SPDX-License-Identifier: Apache-2.0
// PretokenMerger with the tokens of a pre-token in one vector register and the ranks of their pairs
// in another. Needs AVX-512 with VBMI2 (Ice Lake, Zen 4 and later).
#pragma once

#include <memory>

#include "text/bpe/pretoken_merger.hpp"

namespace lm::text {

// Whether ids and ranks take 16 (narrow) or 32 bits in registers.
enum class MergerWords { narrow, wide };
// Returns nullptr if this machine lacks the instructions, or if ids or ranks exceed 16 bits.
std::unique_ptr<PretokenMerger> make_vector_merger(const BpeModel& model, MergerWords words);

}  // namespace lm::text
