// SPDX-License-Identifier: Apache-2.0
// The pre_tokenizer of a tokenizer.json, read and written.
#pragma once

#include <string>

#include "io/json.hpp"
#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

struct PretokenizerSettings {
    PretokenizerRule rule;
    bool prefix_space;
};
PretokenizerSettings read_pretokenizer(const io::Json& json, const std::string& path);

// How a tokenizer.json asks for `rule`.
io::OrderedJson pretokenizer_json(PretokenizerRule rule);
io::OrderedJson byte_level_json(bool use_regex);

}  // namespace lm::text
