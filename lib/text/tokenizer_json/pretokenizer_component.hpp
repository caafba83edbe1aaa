// SPDX-License-Identifier: Apache-2.0
// Reads and writes the pre_tokenizer of a tokenizer.json.
#pragma once

#include <string>

#include "io/json.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

struct PretokenizerSettings {
    PretokenizerRule rule;
    bool prefix_space;  // a text that does not begin with a space gets one in front
};
PretokenizerSettings read_pretokenizer(const io::Json& json, const std::string& path);

// Returns the JSON of the pre_tokenizer that applies `rule`.
io::OrderedJson pretokenizer_json(PretokenizerRule rule);
io::OrderedJson byte_level_json(bool use_regex);

}  // namespace lm::text
