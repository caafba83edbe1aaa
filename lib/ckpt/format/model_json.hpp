// SPDX-License-Identifier: Apache-2.0
// The model's configuration as JSON, as the manifest holds it; the keys are lm-train's flags.
#pragma once

#include <string>

#include "io/json_fwd.hpp"
#include "spec/model.hpp"

namespace lm::ckpt {

// Returns the configuration as a JSON object.
io::OrderedJson to_json(const spec::ModelConfig& config);
// Parses such an object. Throws Error(failure) naming `path` and the key.
spec::ModelConfig model_from_json(const io::Json& object, const std::string& path);

}  // namespace lm::ckpt
