// SPDX-License-Identifier: Apache-2.0
// --dry-run: checks a run and prints its plan. It trains nothing and writes no file.
#pragma once

#include "train/resolve/run_config.hpp"

namespace lm::train {

// Prints on stdout the plan for --world-size ranks; without this flag, for `ranks`, of which
// `ranks_here` are on this host. With --print-config, prints the configuration on stdout and the
// plan on stderr. Prints all problems on stderr, and notes about limits that prevent a training on
// this host but not a plan. Throws Error(usage) when there is a problem.
Exit dry_run(const config::TrainFlags& flags, std::string command_line, StartedRanks ranks,
             i64 ranks_here);

}  // namespace lm::train
