// SPDX-License-Identifier: Apache-2.0
// Encodes plain text (added tokens and normalizers are the business of text_encoder.hpp):
// pre-tokens by the pre-tokenizer, then ids out of a cache keyed by the pre-token's own bytes
// (pretoken_cache.hpp), or by the merge algorithm when they are not there.
#pragma once

#include <memory>

#include "text/bpe/bpe_model.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

// Encodes with `model`, which must outlive the encoder.
std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, PretokenizerRule rule);

}  // namespace lm::text
