// SPDX-License-Identifier: Apache-2.0
#include "train/start/early_stop.hpp"

#include "base/log.hpp"
#include "io/file.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/resume/pending_evaluation.hpp"

namespace lm::train {
namespace {

// Returns on all ranks whether rank 0 finds the kill switch. Collective.
bool kill_switch_exists(const std::string& path, comm::Group& world) {
    if (path.empty()) return false;
    i64 exists = world.rank() == 0 && io::exists(path) ? 1 : 0;
    world.broadcast({&exists, DType::int64, {1}}, 0);
    return exists != 0;
}

}  // namespace

optim::Counters progress_in(const RunConfig& config,
                            const std::optional<ckpt::Checkpoint>& checkpoint) {
    if (!checkpoint || config.checkpoints.finetune) return {};
    const ckpt::StepCounters& saved = checkpoint->manifest().counters;
    return {.iteration = saved.iteration,
            .samples = saved.consumed_samples,
            .tokens = saved.consumed_tokens};
}

std::optional<Exit> stop_before_load(const RunConfig& config,
                                     const std::optional<ckpt::Checkpoint>& checkpoint,
                                     comm::Group& world, StatusFile& status, TrainingLog& log) {
    const optim::Counters done = progress_in(config, checkpoint);
    const i64 total = config.schedule.total_iterations();
    std::string why;
    Stop stop = Stop::no;
    if (kill_switch_exists(config.stopping.kill_switch, world)) {
        stop = Stop::kill_switch;
        why = stop_note(stop, config.stopping, config.checkpoints, done.iteration, total);
        note("{}", why);
    } else if (config.schedule.finished(done) &&
               !evaluation_is_pending(world, config.checkpoints.save, done.iteration)) {
        stop = Stop::finished;
        why = "the training is finished already";
        note("{}, after iteration {}", why, done.iteration);
    }
    if (stop == Stop::no) return std::nullopt;
    if (done.iteration > 0) {
        const ckpt::Manifest& manifest = checkpoint->manifest();
        status.resumed(done.iteration, done.samples);
        status.claimed(manifest.run_id, manifest.generation);
        log.claimed(manifest.run_id, manifest.generation);
    }
    status.stopping(why);
    log.started(done, world.size());
    if (done.iteration > 0) log.resumed(done);
    log.stopped(done.iteration, exit_code(stop), why);
    return exit_code(stop);
}

}  // namespace lm::train
