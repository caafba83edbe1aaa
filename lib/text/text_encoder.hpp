// SPDX-License-Identifier: Apache-2.0
// Encodes a text in the order of Hugging Face tokenizers: finds added tokens in the raw text,
// normalizes the text between them, finds added tokens in the normalized text, prepends a space,
// encodes by byte-level BPE, and adds the ids of the template at both ends.
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
    bool prefix_space = false;        // prepend a space to each text that BPE encodes
    std::vector<i32> prefix, suffix;  // ids around every text

    bool is_trivial() const {  // BPE gets the text unchanged
        return raw.empty() && normalizer.empty() && normalized.empty() && !prefix_space &&
               prefix.empty() && suffix.empty();
    }
};

// Returns an encoder that runs `steps`, which must outlive it, and encodes the text between added
// tokens with `plain`.
std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain);

}  // namespace lm::text
