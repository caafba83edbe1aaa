// SPDX-License-Identifier: Apache-2.0
// Encodes whole texts: special tokens out, pieces by the splitter, then ids out of a cache keyed by
// the piece's own bytes (piece_cache.hpp), or by the merge algorithm when they are not there.
#pragma once

#include <memory>
#include <span>

#include "text/bpe.hpp"
#include "text/special_tokens.hpp"
#include "text/splitter.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

struct BpePlan {
    const BpeModel* model;
    SplitRule rule;
    std::span<const SpecialMatcher>
        special;                          // looked for one after the other, the first in raw text
    std::span<const i32> prefix, suffix;  // around every text
};

// What the plan refers to must outlive the encoder.
std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan);

}  // namespace lm::text
