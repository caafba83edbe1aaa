// SPDX-License-Identifier: Apache-2.0
// Receives the progress of a running dataset build, and decides when the build stops.
#pragma once

#include "preprocess/build_totals.hpp"

namespace lm::preprocess {

// Thrown when the observer requests a stop. At that time the journals contain all encoded data.
struct Stopped {};

// All functions except begin() are called from several threads.
class BuildObserver {
  public:
    virtual ~BuildObserver() = default;
    BuildObserver() = default;
    BuildObserver(const BuildObserver&) = delete;
    BuildObserver& operator=(const BuildObserver&) = delete;

    // Called when encoding begins, before any call of stop_requested(). `total_bytes` is the size
    // of the inputs on disk; -1: unknown.
    virtual void begin(i64 total_bytes) = 0;
    // Called for each part before this run encodes the rest of the part. `done` has the counts of
    // the data that earlier runs have encoded.
    virtual void resumed(const BuildTotals& done) = 0;
    // Called when a chunk was encoded. `disk_bytes`: the bytes that were read from the inputs for
    // this chunk.
    virtual void advance(const BuildTotals& chunk, i64 disk_bytes) = 0;
    // Returns whether the build must stop; if true, the build throws Stopped. Must be fast, because
    // it is called often.
    virtual bool stop_requested() = 0;
};

}  // namespace lm::preprocess
