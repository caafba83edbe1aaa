// SPDX-License-Identifier: Apache-2.0
// The saves of the loop: the fields of a save's manifest, and its entries in the status file.
#pragma once

#include <optional>

#include "train/loop/loop_parts.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/resume/resume.hpp"
#include "train/save/saver.hpp"

namespace lm::train {

class Saves {
  public:
    // `rules` outlives this object.
    Saves(const LoopParts& parts, const LoopRules& rules);

    // Calls Saver::prepare() for a run that continues at `progress`; does nothing in a run without
    // saves. Collective.
    void prepare(const Progress& progress);
    // Saves the state at `progress`. `stop`: the reason why the run stops after this save.
    // `expected_s`: an estimate of the time of the save. Collective.
    void save(const Progress& progress, Stop stop, double expected_s);
    // Saves the state at `progress` to --local-save. Collective.
    void save_locally(const Progress& progress);
    // Saves the state at `progress` before an error ends the run. Collective.
    void save_before_error(const Progress& progress);
    // Commits a pending save that no rank writes any more. `now`: the state of the loop.
    // Collective.
    void commit_if_written(const LoopState& now);
    // Waits until a pending save no longer reads the state that the optimizer step changes.
    void wait_for_originals();
    // Finishes a pending save. Returns on rank 0 the newest step of --save that this run has saved
    // or loaded, or nullopt if there is none. This step may differ from the step in the file
    // `latest`, which this run may have found corrupt. Collective.
    std::optional<i64> newest_step(const Progress& progress);

    Saver& saver() { return saver_; }

  private:
    ckpt::SaveInfo info_at(const Progress& progress) const;

    LoopParts parts_;
    const LoopRules& rules_;
    Saver saver_;
};

}  // namespace lm::train
