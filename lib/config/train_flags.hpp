// SPDX-License-Identifier: Apache-2.0
// lm-train's command line: every flag that is not the model's, with Megatron's names and defaults.
// lm-estimate takes the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "config/data_parallel_flags.hpp"
#include "config/megatron_flags.hpp"
#include "config/parallel_flags.hpp"
#include "spec/loss_scale.hpp"
#include "text/tokenizer_choice.hpp"

namespace lm::config {

struct DataFlags {
    std::vector<std::string> data_path;
    std::string split = "969,30,1";
    std::string order = "stateless";
    std::string cache_path;
    std::vector<std::string> train_path, valid_path, test_path;
    std::vector<std::string> train_groups, valid_groups, test_groups;
    std::string train_groups_file, valid_groups_file, test_groups_file;
    text::TokenizerChoice tokenizer;
    bool mock_data = false;
    bool reset_position_ids = false;
    bool reset_attention_mask = false;
    bool eod_mask_loss = false;
};

// Curriculum learning by sequence length; names as in DeepSpeed's configuration.
struct CurriculumFlags {
    std::string type;  // empty: none
    std::string schedule = "fixed_linear";
    std::optional<i64> min_difficulty, max_difficulty, total_steps;
    i64 difficulty_step = 8;
    i64 root_degree = 2;
    std::vector<i64> difficulties, max_steps;  // fixed_discrete
};

struct ScheduleFlags {
    std::optional<i64> micro_batch;
    std::optional<i64> global_batch;
    std::optional<i64> accumulation_steps;  // of a DeepSpeed file, which must fit the others
    std::vector<i64> rampup;
    std::optional<i64> train_samples, train_iters, train_tokens;
    std::optional<double> lr;
    double min_lr = 0.0;
    std::string lr_decay_style = "linear";
    std::optional<i64> lr_warmup_samples, lr_warmup_iters;
    std::optional<double> lr_warmup_fraction;
    double lr_warmup_init = 0.0;
    std::string lr_wsd_decay_style = "exponential";
    std::optional<i64> lr_wsd_decay_samples, lr_wsd_decay_iters;
    std::optional<i64> lr_decay_samples, lr_decay_iters, lr_decay_tokens;
    CurriculumFlags curriculum;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.999;
    double adam_eps = 1e-8;
    double weight_decay = 0.01;
    double clip_grad = 1.0;
};

struct OutputFlags {
    std::string save, load;
    bool fresh = false;
    bool exit_on_missing = false;  // --exit-on-missing-checkpoint
    bool finetune = false;
    bool no_load_optim = false;
    bool override_schedule = false, override_data = false, override_tokenizer = false;
    std::optional<i64> save_interval;
    std::string save_schedule;
    std::optional<i64> exit_interval, exit_iteration, exit_samples;
    std::optional<double> exit_duration_min;
    std::vector<std::string> skip_ranges;
    std::string kill_switch, save_switch;
    i64 log_interval = 100;
    i64 eval_interval = 1000;
    i64 eval_iters = 100;
    std::string log_file, log_json;
    std::string tensorboard_dir;
    i64 tensorboard_queue_size = 1000;
    bool log_validation_ppl = false, log_batch_size = false, log_timers = false;
    std::string show_samples;
    std::optional<i64> world_size;
    bool dry_run = false, print_config = false, benchmark = false;
};

struct TrainFlags {
    ModelFlags model;
    ParallelFlags parallel;
    DataParallelFlags data_parallel;
    PrecisionFlags precision;
    spec::LossScaleConfig loss_scale;
    MegatronChoices megatron;
    DataFlags data;
    ScheduleFlags schedule;
    OutputFlags output;
    std::string deepspeed_config;
    std::string attention_backend = "auto";
    bool deterministic_mode = false;
    bool allow_tf32 = false;
    std::string autotune;
    std::string device = "auto";  // choose_device() makes it "cpu" or "cuda" before resolve()
    std::optional<i64> threads;

    spec::GpuAttention attention() const;
};

// `options` and `flags` must outlive parsing and stay where they are.
void add_train_options(cli::Options& options, TrainFlags& flags);

}  // namespace lm::config
