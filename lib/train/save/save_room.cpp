// SPDX-License-Identifier: Apache-2.0
#include "train/save/save_room.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cost/formulas.hpp"
#include "io/filesystem_use.hpp"

namespace lm::train {
namespace {

// Returns "1.2 GiB are free, but WHAT 4.3 GiB", or "12 inodes are free, but WHAT 34"; an empty text
// when there is enough space. `what` replaces WHAT, for example "a checkpoint needs".
std::string shortage(const std::string& directory, const RoomNeed& need, std::string_view what) {
    const io::FilesystemUse use = io::filesystem_use(io::nearest_existing(directory));
    if (use.available < need.bytes) {
        return fmt::format("{} are free, but {} {}", human_size(use.available), what,
                           human_size(need.bytes));
    }
    if (use.inodes > 0 && use.inodes_available < need.files) {
        return fmt::format("{} inodes are free, but {} {}", use.inodes_available, what, need.files);
    }
    return {};
}

// Checks that --local-save has space for two local steps, the newest complete step and the step
// that is being saved.
void check_local_room(const std::string& local_save, i64 checkpoint_bytes, i64 n_nodes) {
    if (local_save.empty()) return;
    const i64 copies = n_nodes > 1 ? 2 : 1;  // a node's own files, and its partner's
    const RoomNeed need{2 * copies * ceil_div(checkpoint_bytes, n_nodes), 0};
    const std::string text = shortage(local_save, need, "two local steps need");
    if (text.empty()) return;
    usage_error(local_save, "--local-save: {}: give storage with more free space", text);
}

}  // namespace

bool has_room(const std::string& directory, const RoomNeed& need) {
    return shortage(directory, need, "").empty();
}

void check_room(const std::string& directory, const RoomNeed& need) {
    const std::string text = shortage(directory, need, "a checkpoint needs");
    if (text.empty()) return;
    run_error(directory, "{}: delete files, or checkpoints with lm-ckpt prune", text);
}

StepCount steps_on_disk(const SaveRules& rules, i64 start, i64 last) {
    if (!rules.retain) {
        const i64 before = start > 0 ? spec::count_saves(rules.ranges, start) : 0;
        const i64 n = std::max<i64>(0, spec::count_saves(rules.ranges, last) - before);
        return {.kept = n, .on_disk = n};
    }
    const std::vector<i64> steps = spec::save_iterations(rules.ranges, start, last);
    const i64 n = std::ssize(steps);
    const ckpt::KeepPolicy& keep = rules.retain->keep;
    if (keep.empty()) return {.kept = n, .on_disk = n};
    const auto removed = ckpt::steps_to_remove(steps, keep, std::nullopt);
    const i64 kept = n - std::ssize(removed);
    // An older checkpoint is deleted only after the next one is complete, so at that time one more
    // checkpoint is on disk.
    return {.kept = kept, .on_disk = std::min(n, kept + 1)};
}

std::vector<i64> growing_saves(const SaveRules& rules, i64 start, i64 last, size_t most) {
    const bool deletes = rules.retain && !rules.retain->keep.empty();
    std::vector<i64> on_disk, growing;
    size_t most_on_disk = 0;
    // Assumes that the saves before `start` followed these rules.
    for (const i64 step : spec::save_iterations(rules.ranges, deletes ? 0 : start, last)) {
        on_disk.push_back(step);
        if (on_disk.size() > most_on_disk) {
            most_on_disk = on_disk.size();
            if (step > start) growing.push_back(step);
        }
        if (growing.size() == most) break;
        if (!deletes) continue;
        for (const i64 removed : ckpt::steps_to_remove(on_disk, rules.retain->keep, step)) {
            std::erase(on_disk, removed);
        }
    }
    return growing;
}

void check_room_for_run(const RunConfig& config, i64 start, i64 ranks_here) {
    const config::CheckpointFlags& flags = config.checkpoints;
    if (flags.save.empty() || config.action.benchmark) return;
    const i64 n = steps_on_disk(config.saves, start, last_iteration(config)).on_disk;
    const i64 each = cost::checkpoint_size(config.trainer.model, config.trainer.precision).total();
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const i64 n_ranks = parallel.n_ranks();
    const i64 n_nodes = ceil_div(n_ranks, ranks_here);
    const RoomNeed need{n * each, n * ckpt::files_of_checkpoint(n_ranks, n_nodes)};
    const std::string text = shortage(
        flags.save, need, n == 1 ? "a checkpoint needs" : fmt::format("{} checkpoints need", n));
    if (!text.empty()) {
        usage_error(flags.save,
                    "--save: {}: save less often, give --save-retain, or use another file system",
                    text);
    }
    check_local_room(flags.local_save, each, n_nodes);
}

i64 last_iteration(const RunConfig& config) {
    const config::StoppingFlags& stopping = config.stopping;
    const i64 total = config.schedule.total_iterations();
    const i64 last = std::min(total, stopping.exit_iteration.value_or(total));
    if (!stopping.exit_samples) return last;
    // Finds by bisection the first iteration after which the run has consumed exit_samples samples.
    i64 low = 1;
    i64 high = std::max<i64>(last, 1);
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        const bool enough = config.schedule.after(middle).samples >= *stopping.exit_samples;
        (enough ? high : low) = enough ? middle : middle + 1;
    }
    return low;
}

}  // namespace lm::train
