// SPDX-License-Identifier: Apache-2.0
// From the schedule and optimizer flags to what optim/ works with.
#pragma once

#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/flags.hpp"

namespace lm::train {

// Throws Error(usage) naming the flag.
optim::ScheduleRequest schedule_request(const ScheduleFlags& flags, i64 seq_length);
optim::AdamWConfig adamw_config(const ScheduleFlags& flags);

}  // namespace lm::train
