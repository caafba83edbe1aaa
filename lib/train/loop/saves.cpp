// SPDX-License-Identifier: Apache-2.0
#include "train/loop/saves.hpp"

#include <filesystem>

#include "ckpt/history/lineage.hpp"
#include "ckpt/history/steps.hpp"
#include "cost/formulas.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {
namespace {

// Returns the saves after iteration `start` for the status file.
ComingSaves coming_saves(const RunConfig& config, i64 start) {
    constexpr size_t most = 200;
    const TrainerConfig& trainer = config.trainer;
    return {.growing = growing_saves(config.saves, start, last_iteration(config), most),
            .step_bytes = cost::checkpoint_size(trainer.model, trainer.precision).total()};
}

}  // namespace

Saves::Saves(const LoopParts& parts, const LoopRules& rules)
    : parts_(parts),
      rules_(rules),
      saver_({.config = parts.config,
              .world = parts.world,
              .recorder = parts.recorder,
              .trainer = parts.trainer,
              .log = parts.log}) {}

void Saves::prepare(const Progress& progress) {
    if (!rules_.saves) return;
    saver_.prepare(progress.loaded);
    parts_.status.planned(coming_saves(parts_.config, progress.done.iteration));
    parts_.status.claimed(saver_.generation().run_id, saver_.generation().number);
    parts_.log.claimed(saver_.generation().run_id, saver_.generation().number);
}

void Saves::save(const Progress& progress, Stop stop, double expected_s) {
    const PhaseScope phase(parts_.trainer.phases(), StepPhase::save);
    parts_.status.busy("saving", expected_s);
    if (stop == Stop::no) {
        saver_.save(info_at(progress));
    } else {
        saver_.save_last(info_at(progress), must_end_now(stop));
    }
    if (parts_.energy != nullptr) parts_.energy->write();
    const std::string& save_switch = parts_.config.stopping.save_switch;
    if (!parts_.is_rank0() || save_switch.empty()) return;
    std::error_code ignored;
    std::filesystem::remove(save_switch, ignored);
}

void Saves::save_locally(const Progress& progress) {
    const PhaseScope phase(parts_.trainer.phases(), StepPhase::save);
    saver_.save_locally(info_at(progress));
}

void Saves::save_before_error(const Progress& progress) {
    saver_.save_last(info_at(progress), false);
}

void Saves::commit_if_written(const LoopState& now) {
    const PhaseScope phase(parts_.trainer.phases(), StepPhase::save);
    saver_.commit_if_written(now.writing, now.retaining);
}

void Saves::wait_for_originals() {
    const PhaseScope phase(parts_.trainer.phases(), StepPhase::save);
    saver_.wait_for_originals();
}

std::optional<i64> Saves::newest_step(const Progress& progress) {
    saver_.finish();
    if (!parts_.is_rank0() || !rules_.saves) return {};
    if (saver_.saved_iteration() >= 0) return saver_.saved_iteration();
    if (!progress.loaded) return {};
    const ckpt::StepReference& loaded = progress.loaded->step;
    try {
        // A later step belongs to another branch. The commands in the error message must not
        // abandon that step.
        const std::string& save = parts_.config.checkpoints.save;
        if (ckpt::latest_step(save).value_or(0) > progress.done.iteration) return {};
        for (const ckpt::StepEntry& step : ckpt::read_lineage(save).steps) {
            if (step.manifest && ckpt::tip_of(*step.manifest).step == loaded)
                return loaded.iteration;
        }
    } catch (const std::exception&) {
        // The commands in the error message then name no step.
    }
    return {};
}

// Returns the fields of the manifest of a save at `progress`.
ckpt::SaveInfo Saves::info_at(const Progress& progress) const {
    Progress at = progress;
    at.interval = parts_.log.unlogged();
    return save_info(parts_.config, parts_.trainer, at, parts_.data_identities);
}

}  // namespace lm::train
