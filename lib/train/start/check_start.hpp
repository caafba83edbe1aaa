// SPDX-License-Identifier: Apache-2.0
// The checks of a start: flags, checkpoint, files and data. All problems of a command line are
// reported at once, so a check that fails does not prevent the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "data/sampling/datasets.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

struct StartParts {
    std::optional<ckpt::Checkpoint> checkpoint;
    data::DataSets data;
};

// Makes the checks of a start that need no other rank, and adds every error to `problems`. Returns
// what it opened. Sets the schedule of `config` to the checkpoint's when a flag asks for that.
// `config` is nullopt when `flags` could not be resolved; then checks only the files to be written.
StartParts check_start(const config::TrainFlags& flags, std::optional<RunConfig>& config,
                       Problems& problems);

// Returns the configuration of a run on `ranks`. Throws an Error with all problems of the flags,
// and, when there are some and `is_rank0`, also with those of check_start().
RunConfig resolve_or_fail(const config::TrainFlags& flags, const std::string& command_line,
                          const StartedRanks& ranks, bool is_rank0);

// Rethrows `error`, which ended the start of a run, with the problems of check_start() added to a
// usage error. Call it in a handler of `error`.
[[noreturn]] void fail_with_all_problems(const RunConfig& config, const Error& error);

// Adds to `problems`, which parsing found in a command line, those that the other flags have. A
// problem that only follows from a flag in `problems` is not added.
void add_problems_of_flags(const config::TrainFlags& flags, const std::string& command_line,
                           std::vector<std::string>& problems);

}  // namespace lm::train
