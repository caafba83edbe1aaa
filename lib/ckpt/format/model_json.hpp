// SPDX-License-Identifier: Apache-2.0
// The model's configuration as the JSON object that the manifest contains. Its keys are lm-train's
// flags.
#pragma once

#include <string>

#include "io/json_fwd.hpp"
#include "spec/model.hpp"

namespace lm::ckpt {

// Returns the configuration as a JSON object. Members that later versions of lm-utils added are
// omitted when they have their default, unless `with_defaults` is set.
io::OrderedJson to_json(const spec::ModelConfig& config, bool with_defaults = false);
// Parses an object that to_json() has made. Throws Error(failure) naming `path` and the key.
spec::ModelConfig model_from_json(const io::Json& object, const std::string& path);

}  // namespace lm::ckpt
