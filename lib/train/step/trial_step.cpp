// SPDX-License-Identifier: Apache-2.0
#include "train/step/trial_step.hpp"

#include <algorithm>
#include <set>

namespace lm::train {
namespace {

// Returns the numbers of micro-batches of the trial steps, a small and a large number. The first, a
// middle and the last micro-batch of a step differ in the SMs that collectives reserve, and in
// whether they add to earlier gradients, so the large number is at least 3 if the run has such
// steps. A step of one micro-batch is another case, because the micro-batch is both the first and
// the last. With interleaved stages, the number is a multiple of the number of stages.
std::set<i64> trial_counts(const TrainerConfig& config, i64 fewest) {
    const i64 unit = config.parallel.n_chunks > 1 ? config.parallel.pp : 1;
    const i64 most = std::min(config.n_micro_batches, round_up(3, unit));
    return {std::min(most, std::max(fewest, unit)), most};
}

}  // namespace

void run_trial_steps(const TrainerConfig& config, device::Device& device, i64 rank,
                     const TrialSteps& steps) {
    const auto trainer =
        Trainer::allocate(config, device, parallel::silent_grid(config.parallel, rank));
    const std::set<i64> counts = trial_counts(config, steps.fewest_micro_batches);
    // The model's own length comes last, because the evaluation after this loop runs with that
    // length.
    std::vector<i64> lengths = steps.seq_lengths;
    std::erase(lengths, config.model.seq_length);
    lengths.push_back(config.model.seq_length);
    for (const i64 length : lengths) {
        trainer->set_seq_length(length);
        const data::Batch batch(length, steps.batch_options);
        RepeatedBatch batches(batch);
        for (const i64 n : counts) trainer->compute_gradients(batches, n);
    }
    const data::Batch batch(config.model.seq_length, steps.batch_options);
    RepeatedBatch batches(batch);
    trainer->evaluate(batches, std::max(i64{2}, *counts.rbegin()));
    device.synchronize();
}

}  // namespace lm::train
