// SPDX-License-Identifier: Apache-2.0
// --dry-run: the plan of a run, and everything about it that does not fit. Trains and writes
// nothing.
#pragma once

#include "train/run_config.hpp"

namespace lm::train {

// Prints the plan for --world-size ranks, or `n_ranks` of which `ranks_here` are on this host, on
// stdout as far as it can be told; with --print-config the configuration there, and the plan on
// stderr. What lm-train cannot do yet and every problem go to stderr; Error(usage) when there is
// one.
Exit dry_run(const config::TrainFlags& flags, std::string command_line, i64 n_ranks,
             i64 ranks_here);

}  // namespace lm::train
