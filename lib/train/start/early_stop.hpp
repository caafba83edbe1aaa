// SPDX-License-Identifier: Apache-2.0
// Ends a run that has nothing to do. Decides from the manifest of the checkpoint, the kill switch
// and the pending evaluation, before a device is opened and weights are loaded. So a task of a job
// array that starts after the end of the training takes only seconds.
#pragma once

#include <optional>

#include "ckpt/format/checkpoint.hpp"
#include "comm/group.hpp"
#include "train/config/run_config.hpp"
#include "train/log/status_file.hpp"
#include "train/log/training_log.hpp"

namespace lm::train {

// Returns the progress in `checkpoint`. Returns zeros without a checkpoint and with --finetune.
optim::Counters progress_in(const RunConfig& config,
                            const std::optional<ckpt::Checkpoint>& checkpoint);

// Returns the exit code when the kill switch exists, or when the training in `checkpoint` is
// finished and no evaluation is pending. Before it returns a code, writes the reason to `status`
// and `log`, with the generation that saved the step, because this run claims no generation.
// Returns nullopt when the run must train. Collective.
std::optional<Exit> stop_before_load(const RunConfig& config,
                                     const std::optional<ckpt::Checkpoint>& checkpoint,
                                     comm::Group& world, StatusFile& status, TrainingLog& log);

}  // namespace lm::train
