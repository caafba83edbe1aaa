// SPDX-License-Identifier: Apache-2.0
// A PretokenMerger for AVX-512 with VBMI2 (Ice Lake, Zen 4 and later). One vector register holds
// the tokens of a pre-token, and another one the ranks of their pairs.
#pragma once

#include <memory>

#include "text/bpe/merges/pretoken_merger.hpp"

namespace lm::text {

// The size of ids and ranks in registers: 16 bits (narrow) or 32 bits (wide).
enum class MergerWords { narrow, wide };
// Returns nullptr if this machine lacks the instructions, or if `words` is narrow and ids or ranks
// exceed 16 bits.
std::unique_ptr<PretokenMerger> make_vector_merger(const BpeModel& model, MergerWords words);

}  // namespace lm::text
