// SPDX-License-Identifier: Apache-2.0
// The training loop around Trainer::step: data, logs, saves, validation and stopping. What to do
// when is decided by the pure functions of train/rules.hpp.
#pragma once

#include "comm/group.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Trains as `config` says, together with the other ranks of `world`, until the training is finished
// or something asks one of them to stop: then all stop behind the same iteration. Rank 0 writes the
// log lines to stdout, everything else for people to stderr.
Exit run(const RunConfig& config, comm::Group& world);

}  // namespace lm::train
