// SPDX-License-Identifier: Apache-2.0
// The fault layer: every create, write, fsync, rename, link and unlink of lib/io passes here. Tests
// make the k-th one fail, come short or kill the process, for every k, or record them all to check
// their order (a power cut cannot be made on a test machine; a missing fsync can be seen).
// $LM_IO_FAULT = "fail:K", "short:K", "kill:K" or "cached:K" (K counts from 1) arms it; unset costs
// one branch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::io::fault {

// fail: the operation does nothing and reports EIO. short_write: a write writes half of its bytes,
// then reports ENOSPC; any other operation fails. kill: SIGKILL before the operation. cached_only:
// a write past the page cache is refused (EINVAL), as some file systems do; all else is done.
enum class Action { none, fail, short_write, kill, cached_only };

// Called before an operation; returns what should happen to it. `kill` does not return.
// Thread-safe. A malformed $LM_IO_FAULT is Error(usage).
Action next(std::string_view operation, std::string_view path);

// For tests in the same process: the `at`-th operation from now on meets `action`; none disarms.
void arm(Action action, i64 at);

struct FileOperation {
    std::string name;  // "create", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir"
    std::string path;
};
void start_recording();
std::vector<FileOperation> stop_recording();

}  // namespace lm::io::fault
