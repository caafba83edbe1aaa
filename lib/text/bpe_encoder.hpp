// SPDX-License-Identifier: Apache-2.0
// Encodes plain text by byte-level BPE. Cuts the text into pre-tokens. Finds the ids of a pre-token
// in a cache (pretoken_cache.hpp), or computes them by the merge algorithm. bpe_tokenizer.hpp
// handles added tokens and normalizers.
#pragma once

#include <memory>

#include "text/bpe/merges/bpe_model.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

// Returns an encoder for `model` and at most `text_bytes` of text (-1: unknown). The model must
// outlive the encoder.
std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, PretokenizerRule rule,
                                          i64 text_bytes);

}  // namespace lm::text
