// SPDX-License-Identifier: Apache-2.0
#include "train/save_room.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cost/formulas.hpp"
#include "io/checked.hpp"
#include "train/retention.hpp"

namespace lm::train {
namespace {

struct Room {
    i64 bytes = 0;
    std::optional<i64> inodes;  // nullopt: the file system has no fixed number
};

// Returns the room that an unprivileged process can still use on the file system of `directory`, or
// of its nearest existing parent.
Room room_of(const std::string& directory) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    fs::path at = fs::absolute(directory, ignored);
    while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
    struct statvfs status {};
    if (::statvfs(at.c_str(), &status) != 0)
        io::system_error(at.string(), "read the free space of the file system", errno);
    Room room{.bytes = static_cast<i64>(status.f_bavail * status.f_frsize), .inodes = {}};
    if (status.f_files > 0) room.inodes = static_cast<i64>(status.f_favail);
    return room;
}

// Returns "1.2 GiB are free, but WHAT 4.3 GiB" or the same for inodes; empty when there is room.
// `what` names what needs them: "a checkpoint needs".
std::string shortage(const std::string& directory, const RoomNeed& need, std::string_view what) {
    const Room room = room_of(directory);
    if (room.bytes < need.bytes) {
        return fmt::format("{} are free, but {} {}", human_size(room.bytes), what,
                           human_size(need.bytes));
    }
    if (room.inodes && *room.inodes < need.files) {
        return fmt::format("{} inodes are free, but {} {}", *room.inodes, what, need.files);
    }
    return {};
}

// Returns the most checkpoints of this run, which starts after iteration `start`, that are on disk
// at the same time. Checkpoints from before `start` are not counted.
i64 most_checkpoints(const RunConfig& config, i64 start) {
    const std::vector<spec::SaveRange> ranges = save_ranges(config.checkpoints);
    const i64 last = last_iteration(config);
    if (config.checkpoints.save_retain.empty()) {
        return spec::count_saves(ranges, last) - (start > 0 ? spec::count_saves(ranges, start) : 0);
    }
    const std::vector<i64> steps = spec::save_iterations(ranges, start, last);
    const ckpt::KeepPolicy keep = parse_retain(config.checkpoints.save_retain).keep;
    if (keep.empty()) return std::ssize(steps);
    const auto removed = ckpt::steps_to_remove(steps, keep, std::nullopt);
    // An older checkpoint is deleted only after the next one is complete, so one more is on disk.
    return std::min(std::ssize(steps), std::ssize(steps) - std::ssize(removed) + 1);
}

}  // namespace

i64 files_of_checkpoint(i64 n_nodes, i64 nodes_per_part) {
    constexpr i64 directory_and_manifest = 2;
    return 2 * n_nodes + ceil_div(n_nodes, nodes_per_part) + directory_and_manifest;
}

bool has_room(const std::string& directory, const RoomNeed& need) {
    return shortage(directory, need, "").empty();
}

void check_room(const std::string& directory, const RoomNeed& need) {
    const std::string text = shortage(directory, need, "a checkpoint needs");
    if (text.empty()) return;
    run_error(directory, "{}: delete files, or checkpoints with lm-ckpt prune", text);
}

void check_room_for_run(const RunConfig& config, i64 start) {
    const config::CheckpointFlags& flags = config.checkpoints;
    if (flags.save.empty() || config.action.benchmark) return;
    const i64 n = std::max<i64>(0, most_checkpoints(config, start));
    const i64 each = cost::checkpoint_size(config.trainer.model, config.trainer.precision).total();
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    // The ranks of a node share files, but the number of nodes is not known here.
    const i64 n_ranks = parallel.tp * parallel.pp * parallel.dp;
    const RoomNeed need{n * each, n * files_of_checkpoint(n_ranks, ranks_per_part)};
    const std::string text = shortage(
        flags.save, need, n == 1 ? "a checkpoint needs" : fmt::format("{} checkpoints need", n));
    if (text.empty()) return;
    usage_error(flags.save,
                "--save: {}: save less often, give --save-retain, or another file system", text);
}

i64 last_iteration(const RunConfig& config) {
    const config::StoppingFlags& stopping = config.stopping;
    const i64 total = config.schedule.total_iterations();
    const i64 last = std::min(total, stopping.exit_iteration.value_or(total));
    if (!stopping.exit_samples) return last;
    // Bisection for the first iteration with that many samples.
    i64 low = 1;
    i64 high = std::max<i64>(last, 1);
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        const bool enough = config.schedule.after(middle).samples >= *stopping.exit_samples;
        (enough ? high : low) = enough ? middle : middle + 1;
    }
    return low;
}

std::vector<spec::SaveRange> save_ranges(const config::CheckpointFlags& flags) {
    if (!flags.save_schedule.empty()) return spec::parse_save_schedule(flags.save_schedule);
    if (flags.save_interval) return {{.interval = *flags.save_interval, .until = 0}};
    return {};
}

}  // namespace lm::train
