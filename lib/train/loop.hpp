// SPDX-License-Identifier: Apache-2.0
// The training loop around Trainer::step: data, logs, saves, validation and stopping. What to do
// when is decided by the pure functions of train/rules.hpp.
#pragma once

#include "train/run_config.hpp"

namespace lm::train {

// Trains as `config` says until the training is finished or something asks it to stop. Log lines go
// to stdout, everything else for people to stderr.
Exit run(const RunConfig& config);

}  // namespace lm::train
