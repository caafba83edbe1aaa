// SPDX-License-Identifier: Apache-2.0
// Computes the rules and numbers of a training loop from the configuration of the run.
#pragma once

#include "data/sampling/datasets.hpp"
#include "train/config/run_config.hpp"
#include "train/log/status_file.hpp"
#include "train/loop/loop_rules.hpp"

namespace lm::train {

// Returns the rules of the loop. The end of the job is not a rule, because it can change during the
// run (LoopState::job_end_unix_s).
LoopRules rules_of(const RunConfig& config, const data::DataSets& data);
// Returns the expected time of the first save in seconds: at 50 MB/s for each rank, and at least
// 2 s.
double first_save_s(const RunConfig& config);
// Returns the saves after iteration `start` for the status file.
ComingSaves coming_saves(const RunConfig& config, i64 start);
// Returns the number of global batches of an evaluation, over all validation sets.
double forward_passes(const RunConfig& config, const data::DataSets& data);
// Returns the number of tokens of a global batch of an evaluation.
double evaluation_tokens(const RunConfig& config);
// Returns the number of iterations, after the first, in which --benchmark measures each operation.
// Measuring takes time itself, so --benchmark computes the throughput from the iterations in which
// it does not measure operations.
i64 timed_iterations(const RunConfig& config, const optim::Counters& start);

}  // namespace lm::train
