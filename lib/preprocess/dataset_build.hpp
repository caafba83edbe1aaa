// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: reads JSON Lines and writes one indexed dataset per key. The parts
// of the output grow in a work directory. When all parts are finished, they are assembled, and the
// outputs are renamed. Under a launcher every rank encodes its own parts. Ranks exchange data
// through the work directory, so they need only a shared file system.
#pragma once

#include <string>
#include <vector>

#include "base/launcher.hpp"
#include "preprocess/build_observer.hpp"
#include "preprocess/build_options.hpp"
#include "preprocess/build_totals.hpp"

namespace lm::preprocess {

struct BuildResult {
    // True when this run has encoded something. False when an earlier run had encoded all inputs,
    // so that this run has at most renamed the outputs.
    bool built = false;
    // Sums over all ranks, set only when `built`: the totals, and the bytes of input that earlier
    // runs had encoded.
    BuildTotals totals;
    i64 resumed_bytes = 0;
    std::vector<std::string> prefixes;  // [keys] the prefix of each output
};

// Builds the datasets. Throws Stopped when the observer requests a stop. With options.resume, the
// work directory then contains all encoded data; without options.resume, the directory is removed.
// Collective.
BuildResult build_datasets(const BuildOptions& options, const Launched& launch,
                           BuildObserver& observer);

}  // namespace lm::preprocess
