// SPDX-License-Identifier: Apache-2.0
// What a dataset build reports to the program while it runs, and what it asks.
#pragma once

#include "preprocess/build_totals.hpp"

namespace lm::preprocess {

// Thrown when the observer asked for a stop. The journals hold everything that was encoded.
struct Stopped {};

// All functions but begin() are called from several threads.
class BuildObserver {
  public:
    virtual ~BuildObserver() = default;
    BuildObserver() = default;
    BuildObserver(const BuildObserver&) = delete;
    BuildObserver& operator=(const BuildObserver&) = delete;

    // Encoding begins: stop_requested() is called after this call only. `total_bytes`: of this
    // rank's inputs on disk; -1: unknown.
    virtual void begin(i64 total_bytes) = 0;
    // An earlier run had encoded this much of a part.
    virtual void resumed(const BuildTotals& done) = 0;
    // A chunk was encoded; `disk_bytes` of the inputs were read for it.
    virtual void advance(const BuildTotals& chunk, i64 disk_bytes) = 0;
    // Whether the build is to stop with Stopped. Cheap.
    virtual bool stop_requested() = 0;
};

}  // namespace lm::preprocess
