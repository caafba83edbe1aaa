// SPDX-License-Identifier: Apache-2.0
// The command line of lm-train, which lm-estimate accepts as well: sections of flags with
// Megatron's names and defaults.
#pragma once

#include <string>
#include <string_view>

#include "config/action_flags.hpp"
#include "config/checkpoint_flags.hpp"
#include "config/data_flags.hpp"
#include "config/device_flags.hpp"
#include "config/logging_flags.hpp"
#include "config/loop_flags.hpp"
#include "config/megatron_flags.hpp"
#include "config/model_fields.hpp"
#include "config/optimizer_flags.hpp"
#include "config/parallel_flags.hpp"
#include "config/schedule_flags.hpp"

namespace lm::config {

struct TrainFlags {
    ModelFlags model;
    DataFlags data;
    DocumentFlags documents;
    ScheduleFlags schedule;
    spec::AdamWConfig optimizer;
    PrecisionFlags precision;
    spec::LossScaleConfig loss_scale;
    ParallelFlags parallel;
    ZeroFlags zero;
    spec::DataParallelConfig data_parallel;
    RankCheckFlags rank_checks;
    std::string deepspeed_config;  // file name
    DeviceFlags device;
    CheckpointFlags checkpoints;
    StoppingFlags stopping;
    ValidationFlags validation;
    LoggingFlags logging;
    ActionFlags action;
    MegatronChoices megatron;
    cli::GivenNames given;
};

// Declares the options of all sections. `options` and `flags` must outlive parsing and must not
// move.
void add_train_options(cli::Options& options, TrainFlags& flags);

// Calls visit(fields) with the table of fields of each section, in the order in which
// --print-config prints the sections.
template <typename Visit>
void for_each_section(Visit&& visit) {
    visit(shape_fields());
    visit(kind_fields());
    visit(validation_fields());
    visit(load_fields());
    visit(save_fields());
    visit(logging_fields());
    visit(action_fields());
    visit(parallel_fields());
    visit(stage_fields());
    visit(zero_fields());
    visit(data_parallel_fields());
    visit(rank_check_fields());
    visit(recompute_fields());
    visit(length_fields());
    visit(rate_fields());
    visit(decay_fields());
    visit(weight_decay_fields());
    visit(curriculum_fields());
    visit(stopping_fields());
    visit(fault_fields());
    visit(optimizer_fields());
    visit(initial_fields());
    visit(data_path_fields());
    visit(group_file_fields());
    visit(data_order_fields());
    visit(document_fields());
    visit(precision_fields());
    visit(loss_scale_fields());
    visit(device_fields());
}

// The part of a field's row that the comparison on resume reads.
struct ResumeRule {
    OnResume on_resume = OnResume::noted;
    std::string flag;     // Field::flag()
    bool clears = false;  // the flag states the opposite of the value in JSON
};

// Returns the rule of the field with this key in `block`. Throws Error(bug) when no row has the
// key.
ResumeRule resume_rule(Block block, std::string_view key);

}  // namespace lm::config
