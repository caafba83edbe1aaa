// SPDX-License-Identifier: Apache-2.0
// The command line of lm-train, which lm-estimate accepts as well: sections of flags with
// Megatron's names and defaults.
#pragma once

#include <string>
#include <string_view>

#include "config/data_flags.hpp"
#include "config/data_parallel_flags.hpp"
#include "config/device_flags.hpp"
#include "config/megatron_flags.hpp"
#include "config/optimizer_flags.hpp"
#include "config/output_flags.hpp"
#include "config/parallel_flags.hpp"
#include "config/schedule_flags.hpp"

namespace lm::config {

struct TrainFlags {
    ModelFlags model;
    DataFlags data;
    ScheduleFlags schedule;
    spec::AdamWConfig optimizer;
    PrecisionFlags precision;
    spec::LossScaleConfig loss_scale;
    ParallelFlags parallel;
    DataParallelFlags data_parallel;
    std::string deepspeed_config;  // file name
    DeviceFlags device;
    CheckpointFlags checkpoints;
    StoppingFlags stopping;
    ValidationFlags validation;
    LoggingFlags logging;
    ActionFlags action;
    MegatronChoices megatron;
};

// Declares the options of all sections. `options` and `flags` must outlive parsing and stay where
// they are.
void add_train_options(cli::Options& options, TrainFlags& flags);

// Returns what a resumed run does when the field `key` of its configuration differs from the
// checkpoint.
OnResume on_resume(std::string_view key);

}  // namespace lm::config
