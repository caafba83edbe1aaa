// SPDX-License-Identifier: Apache-2.0
// Refuses destinations in which a sync would change the steps of a training: its own source, the
// save directory of a training, a step, and the backup of another training. Each function throws
// Error(usage) that names the destination. They accept the backup of the same training, also after
// rollbacks, because a training keeps its run id for all its branches.
#pragma once

#include "ckpt/history/lineage.hpp"
#include "sync/sync.hpp"

namespace lm::sync {

// Refuses a name that leads into a step, and a local directory that is the source or in it. Reads
// nothing of a remote destination.
void check_place(const SyncRequest& request, const SyncTarget& target);

// Refuses a destination with the files that only a training writes: fence.json and generation-N.
// Also refuses a remote destination that is the source under another name. If the source is itself
// a backup, creates a file in it for a moment, and looks for this file at the destination. Throws
// Error(failure) when the destination cannot be reached.
void check_files(const SyncRequest& request, SyncTarget& target);

// Refuses a destination with a step whose run id is not in the history of the source. Accepts
// steps without a run id, such as converted ones.
void check_runs(const SyncRequest& request, const ckpt::Lineage& source,
                const ckpt::Lineage& destination);

}  // namespace lm::sync
