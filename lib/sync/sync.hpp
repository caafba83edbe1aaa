// SPDX-License-Identifier: Apache-2.0
// Backs up a directory of steps: copies the steps that the destination lacks. Removes steps at the
// destination only by the rules of the request.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/verbs/prune.hpp"
#include "sync/sync_target.hpp"

namespace lm::sync {

constexpr std::string_view lock_file = ".sync-lock";  // in a destination that is a directory

struct SyncRequest {
    std::string source;             // directory of steps, without a slash at its end
    std::string destination;        // directory, host:path, or remote:path of rclone
    std::vector<std::string> logs;  // shell patterns of files to copy to DESTINATION/logs
    ckpt::PruneRules rules;         // the steps that the destination keeps
    bool weights_only = false;      // copy no optimizer state
    bool verify = false;            // compare the bytes of steps that the destination already has
    std::optional<i64> bytes_per_second;  // nullopt: no limit
    i64 retries = 3;                      // further attempts after a transfer has failed
    // Called with the current operation, for example "copy global_step20", the bytes done and the
    // bytes in total (0: not known yet). May be empty.
    std::function<void(const std::string& what, i64 done, i64 total)> progress = {};
};

struct SyncReport {
    // Steps, by the operation at the destination. present: the destination had the step already.
    // set_aside: a step of another branch at the destination was renamed. state_removed: the step
    // at the destination lost its optimizer state.
    std::vector<i64> copied, present, verified, removed, state_removed, set_aside;
    i64 bytes = 0;   // size of the copied steps
    i64 n_logs = 0;  // copied logs
    // The error of each step that could not be copied or whose copy has other bytes, and the error
    // that ended the sync.
    std::vector<std::string> failed;
};

// Syncs to the destination of the request. Returns nullopt when another process already syncs to
// this destination. Throws Error(usage) for a destination that destination_check.hpp refuses, and
// when the rules need an operation that the destination does not support. A step that cannot be
// copied does not end the sync. Any other transfer that still fails after all retries ends it.
// SyncReport::failed has the errors of both cases.
std::optional<SyncReport> sync(const SyncRequest& request);

// Syncs to an open target. `state`: a directory for temporary files and for copies of the manifests
// of a remote target.
SyncReport sync_to(SyncTarget& target, const SyncRequest& request, const std::string& state);

}  // namespace lm::sync
