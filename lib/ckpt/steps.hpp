// SPDX-License-Identifier: Apache-2.0
// The steps of a checkpoint directory: their names, the file `latest`, and which step a path means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/checkpoint.hpp"

namespace lm::ckpt {

constexpr std::string_view latest_file = "latest";
constexpr std::string_view temporary_mark = ".tmp.g";  // global_step7.tmp.g3: by generation 3
constexpr std::string_view copy_mark = ".tmp.copy";    // global_step7.tmp.copy: not all there yet

std::string step_name(i64 iteration);       // "global_step120"
i64 step_from_name(std::string_view name);  // -1 when it is no such name

// Opens what `path` means: a global_stepN directory, or a directory of them. There the step that
// `latest` names counts; when that one is not complete, the newest complete one before it, or else
// the newest complete one, with a warning that says so. Throws Error(usage) when `path` does not
// exist or holds no checkpoint at all, Error(failure) when none of those there is complete.
Checkpoint open(const std::string& path);

// nullopt when `path` is a directory (or nothing yet) that holds no checkpoint: a run that starts.
std::optional<Checkpoint> open_if_any(const std::string& path);

// The step of `directory` to take instead when those of `damaged`, which open() gave and then this,
// could not be read to their end for `reason`: in the order of open(), with a warning. Throws
// Error(failure) when there is none left.
Checkpoint open_other(const std::string& directory, const std::vector<i64>& damaged,
                      const std::string& reason);

bool is_step(const std::string& path);  // one step, not a directory of steps; by name or manifest
std::vector<i64> steps_in(const std::string& directory);  // by name, ascending; complete or not
std::optional<i64> latest_step(const std::string& directory);  // what `latest` names, unchecked
void set_latest(const std::string& directory, i64 iteration);  // atomically

}  // namespace lm::ckpt
