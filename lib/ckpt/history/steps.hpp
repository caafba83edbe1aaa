// SPDX-License-Identifier: Apache-2.0
// The steps of a checkpoint directory: their names, the file `latest`, and the step that a path
// refers to.
//
// `latest` has three lines: the name of a step, the digest of its manifest, and its lineage as
// JSON, so that the current branch is known even if the step is damaged. A hand-written `latest`
// may have only the name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/lineage.hpp"

namespace lm::ckpt {

constexpr std::string_view latest_file = "latest";
// global_step7.tmp.g3 is an unfinished save of generation 3, global_step7.tmp.copy an unfinished
// copy, global_step7.tmp.sync an unfinished transfer to a remote, global_step7.tmp.removed an
// unfinished removal (also of abandoned-gN).
constexpr std::string_view temporary_mark = ".tmp.g";
constexpr std::string_view copy_mark = ".tmp.copy";
constexpr std::string_view incoming_mark = ".tmp.sync";
constexpr std::string_view removal_mark = ".tmp.removed";

// Opens the step `path`. If `path` is a directory of steps, opens the tip of its current branch
// (lineage.hpp), normally the step that `latest` names. If the tip is damaged, warns and opens its
// newest complete ancestor, never a step of another branch. Throws Error(usage) when `path` does
// not exist or has no steps, Error(failure) when no step of the branch is complete or the system
// reports an error.
Checkpoint open(const std::string& path);

// Opens a step as open() does. Returns nullopt when `path` does not exist or has neither steps nor
// `latest` (a new run). `share`: the part of the step that is checked, in addition to the manifest
// (checkpoint.hpp).
std::optional<Checkpoint> open_if_any(const std::string& path, const Share& share = {});

// Opens the next step of `directory` in the order of open(), with a warning stating `reason`.
// `damaged` lists the steps that earlier calls of open() and open_other() returned and whose data
// could not be read. Throws Error(failure) when no other step exists.
Checkpoint open_other(const std::string& directory, const std::vector<i64>& damaged,
                      const std::string& reason, const Share& share = {});

// Returns whether `path` is a step, by its name or its manifest, and not a directory of steps.
bool is_step(const std::string& path);
// Returns the numbers of all directory entries with the name of a step, ascending.
std::vector<i64> steps_in(const std::string& directory);

// Returns the step and the lineage in `latest`; nullopt when `latest` does not exist or names no
// step. Digest and lineage are empty when `latest` has only the name.
std::optional<Tip> read_latest(const std::string& directory);
// Returns the number of the step that `latest` names; that step may not exist.
std::optional<i64> latest_step(const std::string& directory);
void set_latest(const std::string& directory, const Tip& tip);  // replaces `latest` atomically

}  // namespace lm::ckpt
