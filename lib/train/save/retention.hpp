// SPDX-License-Identifier: Apache-2.0
// --save-retain: after a save, each rank verifies a share of the new step in the background. Then
// rank 0 deletes the steps that no rule keeps, also in the background.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "base/types.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/verbs/prune.hpp"
#include "comm/group.hpp"
#include "train/save/save_report.hpp"

namespace lm::train {

// Applies the rules. No step is deleted before the newest step is verified, so that a verified step
// remains. All functions are collective unless stated otherwise.
class Retention {
  public:
    // `generation`: its directory is needed on all ranks. `world` outlives this object.
    Retention(comm::Group& world, ckpt::Generation generation, ckpt::PruneRules rules)
        : world_(world), generation_(std::move(generation)), rules_(std::move(rules)) {}
    // Makes the thread stop after the blocks that it is verifying, and waits for the thread. Not
    // collective.
    ~Retention();
    Retention(const Retention&) = delete;
    Retention& operator=(const Retention&) = delete;

    // Starts to verify `step`, which was saved last, if a rule removes another step or the
    // optimizer state of another step. Does nothing while an earlier step is being verified or
    // steps are being deleted. The steps that this call would have deleted are then deleted after
    // the next save.
    void start(i64 step);
    // Returns whether a thread of this rank is verifying or deleting. Not collective.
    bool is_busy() const { return busy_; }
    // Starts to delete steps when no rank is verifying. `any_busy`: whether is_busy() is true on
    // any rank.
    void delete_if_verified(bool any_busy);
    // Blocks until the rules are applied to `step`, which was saved last.
    void finish(i64 step);

  private:
    template <typename Body>
    void run(const Body& body);
    void join();
    std::string manifest_to_verify(i64 step) const;
    void verify_own_share(i64 step, const std::string& manifest);
    void conclude();
    void remove_others(i64 step) const;

    comm::Group& world_;
    ckpt::Generation generation_;
    ckpt::PruneRules rules_;
    i64 step_ = -1;        // the step that the ranks verify; -1: none. The same on all ranks
    i64 applied_to_ = -1;  // the step that was verified last. The same on all ranks
    SaveReport report_;    // the failure of this rank's verification, if any
    std::thread thread_;
    std::atomic<bool> busy_ = false;
    std::atomic<bool> stopped_ = false;
};

}  // namespace lm::train
