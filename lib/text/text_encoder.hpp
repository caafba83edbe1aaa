// SPDX-License-Identifier: Apache-2.0
// What happens to a text around byte-level BPE, in the order of Hugging Face tokenizers: added
// tokens out of the raw text, the normalizer on what lies between them, added tokens out of that,
// a space before what is left, BPE, and the ids of the template around all of it.
#pragma once

#include <memory>
#include <vector>

#include "text/added_tokens/added_tokens.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

struct TextSteps {
    AddedTokenMatcher raw;
    Normalizer normalizer;
    AddedTokenMatcher normalized;  // of normalized content
    bool prefix_space = false;
    std::vector<i32> prefix, suffix;

    bool is_trivial() const {  // the text goes to BPE as it is
        return raw.empty() && normalizer.empty() && normalized.empty() && !prefix_space &&
               prefix.empty() && suffix.empty();
    }
};

// `plain` encodes what is left; `steps` must outlive the encoder.
std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain);

}  // namespace lm::text
