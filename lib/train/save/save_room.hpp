// SPDX-License-Identifier: Apache-2.0
// The disk space, in bytes and inodes, that one save or all saves of a run need in --save.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "ckpt/format/step_files.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

struct RoomNeed {
    i64 bytes = 0;
    i64 files = 0;
};

// Returns whether `need` is free in the file system of `directory`, which may not exist yet.
bool has_room(const std::string& directory, const RoomNeed& need);
// Throws Error(failure) stating the needed and the free space when `need` is not free.
void check_room(const std::string& directory, const RoomNeed& need);

// Returns the iteration at which the schedule or a flag ends the run, whichever comes first.
i64 last_iteration(const RunConfig& config);

// The number of checkpoints of a run in --save.
struct StepCount {
    i64 kept = 0;     // the most that stay after a save, as --save-retain keeps them
    i64 on_disk = 0;  // the most at the same time: one more while a save has not ended
};
// Returns the counts of the saves after iteration `start` of a run that ends after iteration
// `last`. Does not count checkpoints of iterations up to `start`.
StepCount steps_on_disk(const SaveRules& rules, i64 start, i64 last);

// Returns, in ascending order, the iterations of the first `most` saves after iteration `start`
// that need space for one more checkpoint in --save. Without --save-retain these are all saves;
// with it, the saves after which --save has more checkpoints than ever before.
std::vector<i64> growing_saves(const SaveRules& rules, i64 start, i64 last, size_t most);

// Throws Error(usage) when --save has too little space for the checkpoints that are on disk at the
// same time in the rest of the run, after iteration `start`. Also throws when --local-save has too
// little space for the local steps of this host. `ranks_here`: the ranks on each host. Does nothing
// without --save or with --benchmark.
void check_room_for_run(const RunConfig& config, i64 start, i64 ranks_here);

}  // namespace lm::train
