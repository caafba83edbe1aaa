// SPDX-License-Identifier: Apache-2.0
// Encodes plain text (added tokens and normalizers are the business of text_encoder.hpp): pieces by
// the splitter, then ids out of a cache keyed by the piece's own bytes (pretoken_cache.hpp), or by
// the merge algorithm when they are not there.
#pragma once

#include <memory>

#include "text/bpe/bpe_model.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

struct BpePlan {
    const BpeModel* model;
    SplitRule rule;
};

// What the plan refers to must outlive the encoder.
std::unique_ptr<Encoder> make_bpe_encoder(const BpePlan& plan);

}  // namespace lm::text
