// SPDX-License-Identifier: Apache-2.0
// --save-retain: after a save, rank 0 deletes the steps that no rule keeps, in the background.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "ckpt/generation.hpp"
#include "ckpt/prune.hpp"

namespace lm::train {

// Parses
// "keep-last=3,keep-every=1000,keep=5,7,keep-schedule=10@100,1500,weights-only-older-than=2".
// Throws Error(usage) naming --save-retain.
ckpt::PruneRules parse_retain(const std::string& text);

// Applies the rules on a thread of its own. The newest step is verified before others are deleted,
// so that at least one verified step is left.
class Retention {
  public:
    Retention(ckpt::Generation generation, ckpt::PruneRules rules)
        : generation_(std::move(generation)), rules_(std::move(rules)) {}
    ~Retention() { stop(); }
    Retention(const Retention&) = delete;
    Retention& operator=(const Retention&) = delete;

    // Starts to apply the rules after `step` was saved. Does nothing while the thread still applies
    // them after an earlier save: the call after the next save deletes the steps of this one too.
    void start(i64 step);
    // Blocks until the rules are applied.
    void finish();
    // Makes the thread stop after the slice that it is verifying, and blocks until it has stopped.
    void stop();

  private:
    void apply(i64 step);

    ckpt::Generation generation_;
    ckpt::PruneRules rules_;
    std::thread thread_;
    std::atomic<bool> busy_ = false;
    std::atomic<bool> stopped_ = false;
};

}  // namespace lm::train
