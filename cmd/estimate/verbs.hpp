// SPDX-License-Identifier: Apache-2.0
// The verbs of lm-estimate. Each function declares the options of one verb, and stores their values
// until the verb runs.
#pragma once

#include "cli/options.hpp"

namespace lm::estimate {

void add_params_verb(cli::Options& program);
void add_memory_verb(cli::Options& program);
void add_batch_verb(cli::Options& program);
void add_checkpoint_verb(cli::Options& program);
void add_time_verb(cli::Options& program);
void add_layout_verb(cli::Options& program);
void add_eta_verb(cli::Options& program);

}  // namespace lm::estimate
