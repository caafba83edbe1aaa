// SPDX-License-Identifier: Apache-2.0
// Turns the schedule flags into the request of an optim::Schedule.
#pragma once

#include <string>
#include <vector>

#include "config/schedule_flags.hpp"
#include "optim/schedule.hpp"

namespace lm::train {

// Returns the request. Throws Error(usage) that names a flag with an invalid value, or a missing
// flag that another flag needs.
optim::ScheduleRequest schedule_request(const config::ScheduleFlags& flags, i64 seq_length);

// Returns a problem for each missing flag that every training needs: its length and --lr.
std::vector<std::string> missing_schedule_flags(const config::ScheduleFlags& flags);

}  // namespace lm::train
