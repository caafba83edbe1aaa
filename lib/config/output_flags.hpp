// SPDX-License-Identifier: Apache-2.0
// The flags for validation, checkpoints, logs, and when a training stops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.hpp"

namespace lm::config {

struct ValidationFlags {
    i64 interval = 1000;  // --eval-interval, iterations
    i64 iters = 100;      // --eval-iters, global batches; 0: no validation
};

struct CheckpointFlags {
    std::string save, load;  // directories; empty: none
    bool fresh = false;
    bool exit_on_missing = false;  // --exit-on-missing-checkpoint
    bool finetune = false;
    bool no_load_optim = false;
    bool override_schedule = false, override_data = false, override_tokenizer = false;
    std::optional<i64> save_interval;  // iterations
    std::string save_schedule;         // spec/save_schedule.hpp
    std::string save_retain;           // train/retention.hpp
    bool save_required = false;
    i64 save_failures = 10;  // failed saves in a row that end the training
    std::string save_retry = "60s";
    std::string async_save = "on";
    std::string async_save_buffer;  // bytes; empty: the rank's part of a checkpoint
};

struct StoppingFlags {
    std::optional<i64> exit_interval;   // iterations of this run
    std::optional<i64> exit_iteration;  // iteration of the whole training
    std::optional<i64> exit_samples;    // samples that the whole training consumes
    std::optional<double> exit_duration_min;
    std::string kill_switch, save_switch;  // files: if they exist, the run stops or saves
    std::vector<std::string> skip_ranges;  // "A-B": iterations that are not trained on
};

struct LoggingFlags {
    i64 interval = 100;  // --log-interval, iterations
    std::string file, json;
    std::string tensorboard_dir;
    i64 tensorboard_queue_size = 1000;
    bool timers = false, batch_size = false, validation_ppl = false;  // in TensorBoard
};

// Actions that the program does instead of a training or in addition to it.
struct ActionFlags {
    bool dry_run = false;
    std::optional<i64> world_size;
    std::string show_samples;  // "A-B"
    bool print_config = false;
    bool benchmark = false;
};

const Fields<ValidationFlags>& validation_fields();
const Fields<CheckpointFlags>& load_fields();  // directories, and what a run loads
const Fields<CheckpointFlags>& save_fields();  // when and how it saves
const Fields<StoppingFlags>& stopping_fields();
const Fields<LoggingFlags>& logging_fields();
const Fields<ActionFlags>& action_fields();

}  // namespace lm::config
