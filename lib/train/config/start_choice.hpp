// SPDX-License-Identifier: Apache-2.0
// The first start and the later starts of a continued pretraining have the same flags. This file
// decides which of the two a start is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ckpt/format/checkpoint.hpp"
#include "config/checkpoint_flags.hpp"

namespace lm::train {

// Returns the absolute path without links and without a slash at its end; a part that does not
// exist stays as it is.
std::filesystem::path canonical(const std::string& path);

// Decides whether this start of a continued pretraining begins from the weights of another run or
// resumes from its own steps, and sets `flags.load` and `flags.finetune` accordingly:
// - --pretrained-checkpoint A --load B: from B if B has a step, else from the weights of A;
// - --finetune --load A, or --pretrained-checkpoint A without --load: from --save if it has a step
//   of a run that started so from A, else from the weights of A. With --finetune, --load A precedes
//   --pretrained-checkpoint if A has a step and is not --save, as in Megatron-LM.
// A start that resumes also loads the optimizer state: --no-load-optim is about A.
void choose_start(config::CheckpointFlags& flags);
// Returns the directory with the steps from which choose_start() resumes.
std::string own_steps(const config::CheckpointFlags& flags);

// Where a run took its first weights from. Its checkpoints keep this.
struct Origin {
    std::string path;    // absolute path of the step
    std::string run_id;  // empty: the step has none
};
Origin origin_of(const ckpt::Checkpoint& source);
// The key of an Origin in the state of a manifest.
constexpr std::string_view origin_key = "finetuned_from";

}  // namespace lm::train
