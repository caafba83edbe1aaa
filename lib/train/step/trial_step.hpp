// SPDX-License-Identifier: Apache-2.0
// Trial steps on a GPU. Before the GPUs of the ranks are connected, each rank runs the steps of its
// place in the layout alone, on groups without other members. This is necessary because the first
// use of an algorithm of cuBLASLt or of a plan of cuDNN may load code into the GPU, and loading may
// wait until the GPU is idle. In a pipeline step the GPU may never become idle, because it waits
// for a message that depends on this rank, so the job would hang.
#pragma once

#include <vector>

#include "data/sampling/batch.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// The kinds of steps that a run makes.
struct TrialSteps {
    std::vector<i64> seq_lengths;      // sequence lengths of its training steps
    i64 fewest_micro_batches = 1;      // micro-batches of the smallest step on a data-parallel rank
    data::BatchOptions batch_options;  // the optional fields of its micro-batches
};

// Runs every matrix product and every attention plan of the run on rank `rank` at least once.
// Computes the gradients of trial steps for each sequence length, and an evaluation with the
// model's length. Each product is planned for the SMs that the step leaves to it. Allocates the
// memory of a trainer and releases it. Not collective.
void run_trial_steps(const TrainerConfig& config, device::Device& device, i64 rank,
                     const TrialSteps& steps);

}  // namespace lm::train
