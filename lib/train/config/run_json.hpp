// SPDX-License-Identifier: Apache-2.0
// The configuration of a run as JSON, from the fields of lib/config/field.hpp.
#pragma once

#include "io/json_fwd.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Returns the whole configuration, for --print-config.
io::OrderedJson to_json(const RunConfig& config);

// Returns the part of the configuration that a checkpoint's manifest stores and a resumed run
// compares.
io::OrderedJson training_json(const RunConfig& config);

}  // namespace lm::train
