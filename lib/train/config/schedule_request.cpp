// SPDX-License-Identifier: Apache-2.0
#include "train/config/schedule_request.hpp"

#include "base/error.hpp"
#include "config/schedule_flags.hpp"

namespace lm::train {
namespace {

std::optional<optim::Curriculum> curriculum_of(const config::CurriculumFlags& flags,
                                               i64 seq_length) {
    if (flags.type.empty()) return std::nullopt;
    optim::Curriculum curriculum;
    curriculum.from_deepspeed = flags.from_deepspeed;
    curriculum.kind = optim::parse_curriculum_kind(
        flags.from_deepspeed ? "curriculum_learning: schedule_type" : "--curriculum-schedule",
        flags.schedule);
    if (curriculum.kind == optim::Curriculum::Kind::fixed_discrete) {
        curriculum.lengths = flags.difficulties;
        curriculum.max_steps = flags.max_steps;
        return curriculum;
    }
    const auto needed = [](std::string_view flag, const std::optional<i64>& value) {
        if (!value) usage_error(flag, "is missing: --curriculum-learning-type needs it");
        return *value;
    };
    curriculum.min = needed("--curriculum-min-difficulty", flags.min_difficulty);
    curriculum.max = flags.max_difficulty.value_or(seq_length);
    curriculum.total_steps = needed("--curriculum-total-steps", flags.total_steps);
    curriculum.difficulty_step = flags.difficulty_step;
    curriculum.root_degree = flags.root_degree;
    return curriculum;
}

}  // namespace

optim::ScheduleRequest schedule_request(const config::ScheduleFlags& flags, i64 seq_length) {
    optim::ScheduleRequest request;
    request.seq_length = seq_length;
    request.ramp = config::batch_ramp(flags, seq_length);
    request.train_samples = flags.train_samples;
    request.train_iters = flags.train_iters;
    request.train_tokens = flags.train_tokens;
    request.lr = flags.lr;
    request.min_lr = flags.min_lr;
    request.decay_style = optim::parse_decay_style(flags.lr_decay_style);
    request.decoupled_lr = flags.decoupled_lr;
    request.decoupled_min_lr = flags.decoupled_min_lr;
    request.start_weight_decay = flags.start_weight_decay;
    request.end_weight_decay = flags.end_weight_decay;
    request.weight_decay_style = optim::parse_weight_decay_style(flags.weight_decay_style);
    request.warmup_samples = flags.lr_warmup_samples;
    request.warmup_iters = flags.lr_warmup_iters;
    request.warmup_fraction = flags.lr_warmup_fraction;
    request.warmup_init = flags.lr_warmup_init;
    request.anneal_style = optim::parse_anneal_style(flags.lr_wsd_decay_style);
    request.anneal_samples = flags.lr_wsd_decay_samples;
    request.anneal_iters = flags.lr_wsd_decay_iters;
    request.decay_samples = flags.lr_decay_samples;
    request.decay_iters = flags.lr_decay_iters;
    request.decay_tokens = flags.lr_decay_tokens;
    request.curriculum = curriculum_of(flags.curriculum, seq_length);
    return request;
}

std::vector<std::string> missing_schedule_flags(const config::ScheduleFlags& flags) {
    std::vector<std::string> problems;
    if (!flags.train_samples && !flags.train_iters && !flags.train_tokens) {
        problems.emplace_back(
            "--train-samples: the length of the training is missing: give --train-samples, "
            "--train-iters or --train-tokens");
    }
    if (!flags.lr) problems.emplace_back("--lr: the maximum learning rate is missing");
    return problems;
}

}  // namespace lm::train
