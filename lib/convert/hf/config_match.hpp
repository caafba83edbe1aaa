// SPDX-License-Identifier: Apache-2.0
// The config.json of a Hugging Face model, compared with the model that it should describe.
#pragma once

#include <string>

#include "spec/model.hpp"

namespace lm::convert {

// Throws Error(answer_is_no) when config.json of the model `hf` (a directory or a file) describes a
// different forward pass than `checkpoint`. The message names the differing keys, each with both
// values. Does not compare dropout, initialization and the length of sequences.
void check_hf_config(const std::string& hf, const spec::ModelConfig& checkpoint);

}  // namespace lm::convert
