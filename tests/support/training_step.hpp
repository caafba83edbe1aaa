// SPDX-License-Identifier: Apache-2.0
// A training step as the loop makes it (train/loop/loop.cpp).
#pragma once

#include "train/step/trainer.hpp"

namespace lm::test {

inline train::StepResult make_step(train::Trainer& trainer, train::BatchSource& batches,
                                   i64 n_micro_batches, double lr) {
    const train::StepResult step = trainer.compute_gradients(batches, n_micro_batches);
    if (step.finite) trainer.update(step, {lr});
    return step;
}

}  // namespace lm::test
