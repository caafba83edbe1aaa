// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json for byte-level BPE: everything in it is either done exactly or
// refused by name; nothing is skipped.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.hpp"

namespace lm::text {

// Hugging Face's tokenizer.json (or the directory it lies in): byte-level BPE with the
// pre-tokenizers of pretokenizer.hpp, added tokens with their flags, ignore_merges, templates,
// Unicode normal forms and the other simple normalizers. Throws Error(failure) that names whatever
// else the file asks for. The end of document is eos_token of a tokenizer_config.json or
// special_tokens_map.json beside it, else the first of end_of_document_names (special_tokens.hpp)
// that is an added token. Ids without a token are allowed.
std::shared_ptr<const Tokenizer> load_hf_tokenizer(const std::string& path, SpecialInText special);

}  // namespace lm::text
