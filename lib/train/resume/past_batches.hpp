// SPDX-License-Identifier: Apache-2.0
// The batch sizes of the iterations before a resume. A resumed run may have other flags of the
// batch than earlier runs had, but the number of samples of an iteration window depends on what
// each iteration really consumed. So each checkpoint states the ramp of its run and those of
// earlier runs.
#pragma once

#include "ckpt/format/checkpoint.hpp"
#include "io/json.hpp"
#include "spec/schedule.hpp"

namespace lm::train {

// Returns the ramps of `schedule`, for the manifest.
io::OrderedJson batches_json(const spec::Schedule& schedule);

// Returns `schedule` with the ramps of the iterations up to `checkpoint`. When the checkpoint does
// not state its ramp, these iterations count with the ramp of `schedule`. Throws Error(usage) when
// the flags do not fit these iterations.
spec::Schedule schedule_after(const spec::Schedule& schedule, const ckpt::Checkpoint& checkpoint);

}  // namespace lm::train
