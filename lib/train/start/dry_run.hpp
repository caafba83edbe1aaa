// SPDX-License-Identifier: Apache-2.0
// --dry-run: checks a run and prints its plan. It trains nothing and writes no file.
#pragma once

#include "train/config/run_config.hpp"

namespace lm::train {

// Prints on stdout the plan for --world-size ranks; without this flag, the plan for `ranks`, of
// which `ranks_here` are on this host. With --print-config, prints the configuration on stdout and
// the plan on stderr. With --world-size, prints a note about each limit that prevents a training on
// this host but not a plan. Throws an Error with all problems when there are any.
Exit dry_run(const config::TrainFlags& flags, std::string command_line, StartedRanks ranks,
             i64 ranks_here);

}  // namespace lm::train
