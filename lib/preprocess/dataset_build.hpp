// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: JSON Lines in, one indexed dataset per key out. Parts of the output
// grow in a work directory; when all are finished they are assembled and renamed. Under a launcher
// every rank encodes its own parts; ranks meet in the work directory, so they need a shared file
// system and nothing else.
#pragma once

#include <string>
#include <vector>

#include "base/launcher.hpp"
#include "preprocess/build_observer.hpp"
#include "preprocess/build_options.hpp"
#include "preprocess/build_totals.hpp"

namespace lm::preprocess {

struct BuildResult {
    // Whether this run has encoded something. Otherwise an earlier run had encoded everything, and
    // this one has renamed its outputs at most.
    bool built = false;
    BuildTotals totals;     // totals of all ranks, when built
    i64 resumed_bytes = 0;  // input text that earlier runs had encoded, all ranks, when built
    std::vector<std::string> prefixes;  // [keys] of the outputs
};

// Builds the datasets. Throws Stopped when the observer asks for a stop: with options.resume the
// work directory then holds everything that was encoded, else it is removed. Collective.
BuildResult build_datasets(const BuildOptions& options, const Launched& launch,
                           BuildObserver& observer);

}  // namespace lm::preprocess
