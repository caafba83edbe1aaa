// SPDX-License-Identifier: Apache-2.0
// The settings of config.json that only some architectures have: scaled rotary frequencies,
// attention windows, biases of query, key and value, norms with 1 + weight.
#pragma once

#include <optional>
#include <string>

#include "convert/hf_architecture.hpp"
#include "io/json.hpp"

namespace lm::convert {

// Returns the first setting of this kind that the architecture cannot express; nullopt: none.
std::optional<Misfit> misfit_of_variants(const HfArchitecture& architecture,
                                         const spec::ModelConfig& config);

// Adds the settings in `config` that only some architectures have to the JSON of config.json.
void write_variants(const HfArchitecture& architecture, const spec::ModelConfig& config,
                    io::Json& json);
// Reads the settings that only some architectures have from `json`, which was parsed from `path`,
// into `config`. config.max_positions must be set. Throws Error(usage) for a setting that lm-utils
// does not support.
void read_variants(const HfArchitecture& architecture, const io::Json& json,
                   spec::ModelConfig& config, const std::string& path);

}  // namespace lm::convert
