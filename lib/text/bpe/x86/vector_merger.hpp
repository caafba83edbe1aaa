// SPDX-License-Identifier: Apache-2.0
// BPE of many pre-tokens with the tokens of each in one vector register and the ranks of their
// pairs in another. Needs AVX-512 with VBMI2 (Ice Lake, Zen 4 and later).
#pragma once

#include <memory>

#include "text/bpe/pretoken_merger.hpp"

namespace lm::text {

// Whether ids and ranks take 16 bits or 32 in its registers.
enum class MergerWords { narrow, wide };
// nullptr: not on this machine, or these are too many for 16 bits.
std::unique_ptr<PretokenMerger> make_vector_merger(const BpeModel& model, MergerWords words);

}  // namespace lm::text
