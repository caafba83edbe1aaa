// SPDX-License-Identifier: Apache-2.0
// Turns the schedule flags into the request of an optim::Schedule.
#pragma once

#include "config/schedule_flags.hpp"
#include "optim/schedule.hpp"

namespace lm::train {

// Throws Error(usage) naming the flag that has an invalid value, or that is missing although
// another flag needs it.
optim::ScheduleRequest schedule_request(const config::ScheduleFlags& flags, i64 seq_length);

}  // namespace lm::train
