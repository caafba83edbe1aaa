// SPDX-License-Identifier: Apache-2.0
// The flags of a training's length, batches, learning rate and sequence lengths.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::config {

// Curriculum learning by sequence length. The names are from DeepSpeed's configuration.
struct CurriculumFlags {
    std::string type;  // empty: none
    std::string schedule = "fixed_linear";
    std::optional<i64> min_difficulty, max_difficulty, total_steps;
    i64 difficulty_step = 8;
    i64 root_degree = 2;
    std::vector<i64> difficulties, max_steps;  // fixed_discrete
    bool from_deepspeed = false;               // read from --deepspeed_config
};

struct ScheduleFlags {
    std::optional<i64> train_samples, train_iters, train_tokens;
    std::optional<i64> global_batch;        // samples
    std::vector<i64> rampup;                // START INCREMENT SAMPLES
    std::vector<std::string> batch_steps;   // --step-batch-size-schedule: TOKENS:BATCH ...
    std::optional<i64> micro_batch;         // samples
    std::optional<i64> accumulation_steps;  // micro-batches per step, from the DeepSpeed file
    std::optional<double> lr;
    double min_lr = 0.0;
    std::string lr_decay_style = "linear";
    double lr_warmup_init = 0.0;
    std::optional<i64> lr_warmup_samples, lr_warmup_iters, lr_warmup_tokens;
    std::optional<double> lr_warmup_fraction;
    std::optional<i64> lr_decay_samples, lr_decay_iters, lr_decay_tokens;
    std::optional<double> decoupled_lr, decoupled_min_lr;
    std::optional<double> start_weight_decay, end_weight_decay;
    std::string weight_decay_style = "constant";
    std::string lr_wsd_decay_style = "exponential";
    std::optional<i64> lr_wsd_decay_samples, lr_wsd_decay_iters;
    CurriculumFlags curriculum;
};

const Fields<ScheduleFlags>& length_fields();  // length of the training, and batches
const Fields<ScheduleFlags>& rate_fields();    // learning rate and warm-up
const Fields<ScheduleFlags>& decay_fields();   // decay of the rate
const Fields<ScheduleFlags>& weight_decay_fields();
const Fields<CurriculumFlags>& curriculum_fields();

// Returns the batch ramp that the flags describe. Without --global-batch-size, the global batch is
// one micro-batch. `seq_length` is the number of tokens of a sample; 0: not known. Throws
// Error(usage) naming an invalid flag, and for --step-batch-size-schedule, which counts tokens,
// when `seq_length` is not known.
spec::BatchRamp batch_ramp(const ScheduleFlags& flags, i64 seq_length);

// Returns the number of samples that a training consumes until it reaches --train-samples,
// --train-iters or --train-tokens. Each sample counts as `seq_length` tokens, even when a
// curriculum shortens it. With `seq_length` 0 (not known), throws Error(usage) for --train-tokens.
i64 training_samples(const ScheduleFlags& flags, const spec::BatchRamp& ramp, i64 seq_length);

}  // namespace lm::config
