// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_flags.hpp"

#include "base/error.hpp"
#include "base/units.hpp"
#include "train/retention.hpp"

namespace lm::train {
namespace {

void require_save(const config::TrainFlags& flags) {
    const auto refuse = [](bool given, std::string_view flag) {
        if (given) usage_error(flag, "needs --save DIR");
    };
    if (!flags.action.benchmark) {
        refuse(flags.stopping.exit_interval.has_value(), "--exit-interval");
        refuse(flags.stopping.exit_duration_min.has_value(), "--exit-duration-in-mins");
        refuse(!flags.stopping.save_switch.empty(), "--save-switch-path");
    }
    const config::CheckpointFlags& saves = flags.checkpoints;
    refuse(saves.save_interval.has_value(), "--save-interval");
    refuse(!saves.save_schedule.empty(), "--save-schedule");
    refuse(!saves.save_retain.empty(), "--save-retain");
    refuse(saves.save_required, "--save-required");
}

}  // namespace

void check_save_flags(const config::TrainFlags& flags) {
    const config::CheckpointFlags& saves = flags.checkpoints;
    if (saves.save_interval && *saves.save_interval < 1) {
        usage_error("--save-interval", "must be at least 1, but is {}", *saves.save_interval);
    }
    if (saves.save_interval && !saves.save_schedule.empty()) {
        usage_error("--save-schedule", "contradicts --save-interval: give one of the two");
    }
    if (!saves.save_retain.empty()) parse_retain(saves.save_retain);
    if (saves.save_failures < 1) usage_error("--save-failures", "must be at least 1, but is 0");
    parse_duration("--save-retry", saves.save_retry);
    save_buffer_limit(flags);
    if (saves.save.empty()) require_save(flags);
}

void check_load_flags(const config::CheckpointFlags& flags) {
    if (flags.fresh && flags.exit_on_missing) {
        usage_error("--fresh", "contradicts --exit-on-missing-checkpoint: give one of the two");
    }
    if (!flags.load.empty()) return;
    const auto refuse = [](bool given, std::string_view flag) {
        if (given) usage_error(flag, "needs --load DIR");
    };
    refuse(flags.exit_on_missing, "--exit-on-missing-checkpoint");
    refuse(flags.fresh, "--fresh");
    refuse(flags.finetune, "--finetune");
    refuse(flags.no_load_optim, "--no-load-optim");
}

i64 save_buffer_limit(const config::TrainFlags& flags) {
    const config::CheckpointFlags& saves = flags.checkpoints;
    i64 limit = INT64_MAX;
    if (!saves.async_save_buffer.empty()) {
        limit = parse_size("--async-save-buffer", saves.async_save_buffer);
        if (limit < 1) usage_error("--async-save-buffer", "is 0: give --async-save off");
    }
    const bool saves_in_background = saves.async_save == "on" && !saves.save.empty();
    return saves_in_background && !flags.action.benchmark ? limit : 0;
}

}  // namespace lm::train
