// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's tokenizer.json for byte-level BPE. Each part of the file is either applied
// exactly or refused by name, never ignored.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.hpp"

namespace lm::text {

// Loads a tokenizer.json, or the one in the directory `path`: byte-level BPE with the
// pre-tokenizers of pretokenizer.hpp, added tokens with their flags, ignore_merges, templates, and
// the normalizers of normalizer.hpp. Throws Error(failure) with the name of any other option of the
// file. The end of document is eos_token of tokenizer_config.json or special_tokens_map.json in the
// same directory, else the first of end_of_document_names (special_tokens.hpp) that is an added
// token. Ids without a token are allowed.
std::shared_ptr<const Tokenizer> load_hf_tokenizer(const std::string& path, SpecialInText special);

}  // namespace lm::text
