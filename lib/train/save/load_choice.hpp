// SPDX-License-Identifier: Apache-2.0
// Finds the checkpoint that a run starts from, and checks the directory that it saves to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/launcher.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "config/checkpoint_flags.hpp"

namespace lm::train {

// Returns the checkpoint of --load, or nullopt when the run starts at iteration 0. `own_files`: the
// paths that the run itself writes: logs, TensorBoard, measured GEMM algorithms. `share`: the part
// of the files of the checkpoint that is checked. Throws Error(usage)
// - when --load names a step that does not exist;
// - when its directory has no checkpoint but files of another program;
// - when there is no checkpoint and --exit-on-missing-checkpoint, --finetune or --no-load-optim is
//   given;
// - without --fresh, when the directory does not exist and --save names another one;
// - without --fresh, when there is no checkpoint although Slurm restarted the job or this is a
//   later task of a job array: the directory was probably moved away.
// Throws Error(failure) when the directory has no complete step.
std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags,
                                                const std::vector<std::string>& own_files,
                                                const ckpt::Share& share = {},
                                                const Environment& get = environment_of_process);

// Returns the model of the checkpoint of --load for --use-checkpoint-args, with a note; nullopt
// without the flag, or when there is no checkpoint. Throws Error(usage) without --load.
std::optional<spec::ModelConfig> saved_model(const config::CheckpointFlags& flags);

// Throws Error(usage) when --save has steps and the run does not resume from one of them, which
// would mix two runs, or would repeat the previous start. `start`: the result of find_checkpoint().
void check_save(const config::CheckpointFlags& flags, const std::optional<ckpt::Checkpoint>& start);

}  // namespace lm::train
