// SPDX-License-Identifier: Apache-2.0
// The keys of rotary positions in config.json. Up to version 4 transformers has rope_theta and
// rope_scaling; from version 5 rope_parameters has all settings, in some classes once for the
// layers with a window and once for the others, and a rope_scaling replaces the whole of it.
#pragma once

#include <string>

#include "convert/hf/families/hf_class.hpp"
#include "io/json_fwd.hpp"

namespace lm::convert {

// Returns whether the object has the key, with another value than null.
bool is_set(const io::Json& json, const char* key);

// Reads the settings of rotary positions. `config` has the values of the class for missing keys,
// and the context of the model. Throws Error(usage) naming `path` for a rule that the class or
// lm-utils does not have.
void read_rope(const HfClass& hf, const io::Json& json, spec::ModelConfig& config,
               const std::string& path);

// Writes the settings that read_rope() reads. The class can express the model.
void write_rope(const HfClass& hf, const spec::ModelConfig& config, io::Json& json);

// Returns whether the class has the rule of rotary frequencies.
bool has_rule(const HfClass& hf, spec::RotaryRule rule);

}  // namespace lm::convert
