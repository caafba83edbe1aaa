// SPDX-License-Identifier: Apache-2.0
// The flags of a training under the names that this layer uses.
#pragma once

#include "config/train_flags.hpp"

namespace lm::train {

using config::CurriculumFlags;
using config::DataFlags;
using config::OutputFlags;
using config::ScheduleFlags;
using config::TrainFlags;

}  // namespace lm::train
