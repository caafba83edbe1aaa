// SPDX-License-Identifier: Apache-2.0
// Reads which ids the files of a tokenizer state, also of a tokenizer that lm-utils cannot encode
// with.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm::text {

struct TokenizerIds {
    std::optional<i64> bos, eos, pad;  // of bos_token, eos_token and pad_token
    i64 largest = -1;                  // -1: no file states ids
    std::string largest_token;         // as the file spells it
    std::string path;                  // the file that states `largest`
};

// Reads tokenizer.json in `directory`, or vocab.json with added tokens, and the roles of tokens in
// the files next to it. Returns no ids when the directory has neither. Throws Error(failure) with
// the path of an invalid file.
TokenizerIds read_tokenizer_ids(const std::string& directory);

}  // namespace lm::text
