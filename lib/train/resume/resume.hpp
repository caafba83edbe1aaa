// SPDX-License-Identifier: Apache-2.0
// Start and resume of a training: the choice of a checkpoint, its checks, and the training progress
// that it contains.
#pragma once

#include <optional>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/history/steps.hpp"
#include "comm/group.hpp"
#include "metrics/interval.hpp"
#include "train/config/run_config.hpp"
#include "train/config/start_choice.hpp"
#include "train/step/guard_memory.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// The training progress. `done` counts all iterations. `stepped` does not count the iterations
// whose step was dropped after an fp16 overflow or by --on-nan continue. The learning rate is a
// function of `stepped`.
struct Progress {
    spec::Counters done;
    spec::Counters stepped;
    metrics::IntervalSums interval;        // sums over the iterations since the last log line
    std::optional<ckpt::Tip> loaded = {};  // the step that the run resumed from
    GuardMemory guard = {};
    std::optional<Origin> origin = {};  // of a run that started with --finetune
};

// Returns the checkpoint that the run starts from, or nullopt when the run starts with fresh
// weights. `share`: the part of the checkpoint's files that this call checks.
std::optional<ckpt::Checkpoint> find_start(const RunConfig& config, const ckpt::Share& share = {});
// The same for flags of which no RunConfig can be resolved.
std::optional<ckpt::Checkpoint> find_start(const config::TrainFlags& flags);
// Throws Error(usage) when the checkpoint has another model, or when --save contains another run.
void check_fits(const RunConfig& config, const ckpt::Checkpoint& checkpoint);
// Calls choose_start() on rank 0, for all ranks; before, copies a newer step of --local-save to the
// directory of steps that a start would resume from. Collective.
void choose_start(config::CheckpointFlags& flags, const RunConfig& config, comm::Group& world);
// Returns the checkpoint that all ranks start from. Rank 0 chooses it and reads its manifest,
// because hosts can see different files of a shared file system. Each rank checks a share of the
// files. Throws the errors of check_save() and check_fits(). Call it before data is opened and
// memory is allocated. Collective.
std::optional<ckpt::Checkpoint> open_checkpoint(const RunConfig& config, comm::Group& world);
// Prints a note that `load`, the value of --load, has no checkpoint and that the run starts from
// iteration 0. Does nothing if `load` is empty. Call it before the run creates the directory of
// --save, because --load can name that directory, too.
void note_fresh_start(const std::string& load);

// Checks that the run can write its files and directories. Throws Error(usage) when a path is of
// the wrong kind or its directory does not exist, Error(failure) when it is not writable. Removes
// what it creates.
void check_writable(const config::CheckpointFlags& checkpoints,
                    const config::LoggingFlags& logging);

// Loads `checkpoint` into `trainer` and prints a note. Initializes the trainer when there is no
// checkpoint. When --load is a directory of steps and a rank finds the checkpoint corrupt, warns
// and loads on all ranks the step that ckpt::open_other() chooses. `data`: the result of
// training_data(), needed on rank 0 only. Returns the progress from which the training continues.
// Collective.
Progress load_or_initialize(const RunConfig& config, const io::OrderedJson& data,
                            std::optional<ckpt::Checkpoint> checkpoint, comm::Group& world,
                            Trainer& trainer);

// Loads the newest step of --save into `trainer` for a rollback. If that step is later than
// `iteration`, it belongs to another branch of the training; then loads the step of --load. Throws
// JointError(self_stopped) when neither step can be used. The arguments except `iteration`, and the
// result, are those of load_or_initialize(). Collective.
Progress load_newest(const RunConfig& config, const io::OrderedJson& data, i64 iteration,
                     comm::Group& world, Trainer& trainer);

// Throws Error(usage) that lists the flags in which the models differ, among the flags that a
// resumed run cannot change. `saved`: the model of the checkpoint `path`. `wanted`: the model of
// the run. With `finetune`, the rotary frequencies may differ.
void require_same_model(const spec::ModelConfig& saved, const spec::ModelConfig& wanted,
                        const std::string& path, bool finetune = false);

// Returns the fields of the manifest for a checkpoint at `progress`.
ckpt::SaveInfo save_info(const RunConfig& config, const Trainer& trainer, const Progress& progress,
                         const io::OrderedJson& data);

}  // namespace lm::train
