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
// - when the directory of --load has no checkpoint but files of another program;
// - when there is no checkpoint and --exit-on-missing-checkpoint, --finetune or --no-load-optim is
//   given;
// - without --fresh, when the directory of --load does not exist and --save names another
// directory;
// - without --fresh, when there is no checkpoint although Slurm restarted the job or this is a
//   later task of a job array: the directory of --load was probably moved away.
// Throws Error(failure) when the directory has steps, but no complete step.
std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags,
                                                const std::vector<std::string>& own_files,
                                                const ckpt::Share& share = {},
                                                const Environment& get = environment_of_process);

// Throws Error(usage) when --save has steps and the run does not resume from one of them, because
// the steps of two runs would mix. Also throws when the run would repeat the iterations of the
// previous start. `start`: the result of find_checkpoint().
void check_save(const config::CheckpointFlags& flags, const std::optional<ckpt::Checkpoint>& start);

}  // namespace lm::train
