// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's tokenizer.json for byte-level BPE. The reader applies each part of the file
// exactly, or refuses the file with an error that names the part. It ignores only options that
// change no id.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.hpp"
#include "text/tokenizer_json/special_tokens.hpp"

namespace lm::text {

// Loads the tokenizer.json `path`, or the tokenizer in the directory `path`: tokenizer.json, or
// vocab.json and merges.txt of a class that it names (is_pair_of_class()), with the pre-tokenizer,
// normalizer and added tokens that transformers gives this class. Supports
// byte-level BPE with the pre-tokenizers of pretokenizer.hpp, added tokens with their flags,
// ignore_merges, templates, and the normalizers of normalizer.hpp. Throws Error(failure) naming any
// other option of the file. Ids without a token are allowed.
//
// The end of document is the eos_token of tokenizer_config.json or special_tokens_map.json in the
// same directory. Without eos_token it is the first of end_of_document_names (special_tokens.hpp)
// that is an added token.
std::shared_ptr<const Tokenizer> load_hf_tokenizer(const std::string& path, SpecialInText special);
// Returns whether `directory` has no tokenizer.json, but vocab.json and merges.txt and a file that
// states their class (tokenizer_class_in()).
bool is_pair_of_class(const std::string& directory);
// Reads the roles of tokens in the files in `directory`, with the defaults of the class that they
// state. Throws Error(failure) with the path of an invalid file.
NamedTokens named_tokens_in(const std::string& directory);
// Returns whether the pre-tokenizer of the class `name` is GPT-2's.
bool is_gpt2_class(std::string_view name);
// Returns the path of the tokenizer.json that load_hf_tokenizer(path) reads.
std::string hf_tokenizer_path(const std::string& path);

}  // namespace lm::text
