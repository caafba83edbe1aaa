// SPDX-License-Identifier: Apache-2.0
// The flags for loading and saving checkpoints.
#pragma once

#include <optional>
#include <string>

#include "config/field.hpp"

namespace lm::config {

struct CheckpointFlags {
    std::string save, load;        // directories; empty: none
    std::string pretrained;        // --pretrained-checkpoint: directory; empty: none
    std::optional<i64> load_step;  // --ckpt-step
    bool fresh = false;
    bool exit_on_missing = false;  // --exit-on-missing-checkpoint
    bool finetune = false;
    bool no_load_optim = false;
    bool use_saved_model = false;     // --use-checkpoint-args
    bool use_saved_schedule = false;  // --use-checkpoint-opt_param-scheduler
    bool override_schedule = false, override_data = false, override_tokenizer = false;
    std::optional<i64> save_interval;         // iterations
    std::string save_schedule;                // syntax: spec/save_schedule.hpp
    std::string save_retain;                  // syntax: train/save/retention.hpp
    std::optional<i64> save_retain_interval;  // iterations; a short form of save_retain
    bool save_required = false;
    i64 save_failures = 10;  // number of consecutive failed saves that ends the training
    std::string save_retry = "60s";
    std::string async_save = "on";
    std::string async_save_buffer;  // size; empty: the size of the rank's part of a checkpoint
    std::string local_save;         // directory on storage of each node; empty: none
    std::optional<i64> local_save_interval;  // iterations
};

const Fields<CheckpointFlags>& load_fields();  // directories, and the data that a run loads
const Fields<CheckpointFlags>& save_fields();  // when and how a run saves

}  // namespace lm::config
