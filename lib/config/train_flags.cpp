// SPDX-License-Identifier: Apache-2.0
#include "config/train_flags.hpp"

namespace lm::config {

void add_train_options(cli::Options& options, TrainFlags& flags) {
    options.report_given(&flags.given);
    add_model_options(options, flags.model);
    add_data_options(options, flags.data, flags.documents);
    options.group("Schedule");
    declare(options, length_fields(), flags.schedule);
    declare(options, rate_fields(), flags.schedule);
    declare(options, decay_fields(), flags.schedule);
    declare(options, weight_decay_fields(), flags.schedule);
    declare(options, curriculum_fields(), flags.schedule.curriculum);
    options.group("Optimizer");
    declare(options, optimizer_fields(), flags.optimizer);
    options.group("Precision");
    declare(options, precision_fields(), flags.precision);
    declare(options, loss_scale_fields(), flags.loss_scale);
    add_parallel_options(options, flags.parallel);
    options.group("Data parallel");
    declare(options, zero_fields(), flags.zero);
    declare(options, data_parallel_fields(), flags.data_parallel);
    declare(options, rank_check_fields(), flags.rank_checks);
    options.group("Device");
    declare(options, device_fields(), flags.device);
    options.group("Checkpoints");
    declare(options, load_fields(), flags.checkpoints);
    declare(options, save_fields(), flags.checkpoints);
    options.group("Stopping");
    declare(options, stopping_fields(), flags.stopping);
    declare(options, fault_fields(), flags.stopping);
    options.group("Logging");
    declare(options, validation_fields(), flags.validation);
    declare(options, logging_fields(), flags.logging);
    options.group("Other");
    options.value(
        "--deepspeed_config,--deepspeed-config", &flags.deepspeed_config, "FILE",
        "read batch sizes, ZeRO stage, precision, loss scale, clipping and curriculum from "
        "a DeepSpeed configuration, as if they had been given as flags");
    declare(options, action_fields(), flags.action);
    add_megatron_flags(options, flags.megatron);
}

ResumeRule resume_rule(Block block, std::string_view key) {
    std::optional<ResumeRule> rule;
    for_each_section([&](const auto& fields) {
        for (const auto& field : fields) {
            if (field.block != block || field.key() != key) continue;
            rule = {*field.on_resume, field.flag(), field.clears};
        }
    });
    LM_CHECK(rule, "expected a row for the field {} of {}, got none", key, name_of(block));
    return *rule;
}

}  // namespace lm::config
