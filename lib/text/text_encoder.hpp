// SPDX-License-Identifier: Apache-2.0
// Encodes a text with the steps of Hugging Face tokenizers, in the same order: finds added tokens
// in the raw text, normalizes the text between them, finds added tokens in the normalized text,
// prepends a space, encodes by byte-level BPE, and adds the ids of the template before and after
// the text.
#pragma once

#include <memory>
#include <vector>

#include "text/added_tokens/added_tokens.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

struct TextSteps {
    AddedTokenMatcher raw;  // finds tokens in the raw text
    Normalizer normalizer;
    AddedTokenMatcher normalized;     // finds tokens in the normalized text
    bool prefix_space = false;        // BPE gets each text with a space in front
    std::vector<i32> prefix, suffix;  // ids before and after every text

    bool is_trivial() const {  // true if BPE gets the text unchanged
        return raw.empty() && normalizer.empty() && normalized.empty() && !prefix_space &&
               prefix.empty() && suffix.empty();
    }
};

// Returns an encoder that applies `steps`, and encodes the text between added tokens with `plain`.
// `steps` must outlive the encoder.
std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain);

}  // namespace lm::text
