// SPDX-License-Identifier: Apache-2.0
// From the flags of a training's length and batches to numbers.
#pragma once

#include "config/train_flags.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::config {

// --global-batch-size, by default a micro-batch, and the ramp to it. Throws Error(usage) naming the
// flag.
spec::BatchRamp batch_ramp(const ScheduleFlags& flags);

// Samples that are consumed when --train-samples, --train-iters or --train-tokens end the training,
// whichever comes first, of sequences of `seq_length` tokens (0: not known, then tokens are
// refused). A curriculum's shorter sequences are not looked at.
i64 training_samples(const ScheduleFlags& flags, const spec::BatchRamp& ramp, i64 seq_length);

}  // namespace lm::config
