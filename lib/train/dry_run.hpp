// SPDX-License-Identifier: Apache-2.0
// --dry-run: checks a run and prints its plan; trains and writes nothing.
#pragma once

#include "train/run_config.hpp"

namespace lm::train {

// Prints the plan for --world-size ranks, else for `n_ranks` of which `ranks_here` are on this
// host, on stdout; with --print-config the configuration goes to stdout and the plan to stderr.
// Features that do not exist yet and all problems go to stderr. Throws Error(usage) when there is a
// problem.
Exit dry_run(const config::TrainFlags& flags, std::string command_line, i64 n_ranks,
             i64 ranks_here);

}  // namespace lm::train
