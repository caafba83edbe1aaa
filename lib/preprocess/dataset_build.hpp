// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: reads JSON Lines and writes one indexed dataset per key. The parts
// of the output grow in a work directory. When all parts are finished, they are assembled, and the
// outputs are renamed.
//
// Several processes share an input by --shard: each writes datasets of its own, and `merge` joins
// them. A single output of many processes would need a protocol among them (who has begun, who has
// died, whose part goes where), for which a shared file system gives neither locks nor timeouts
// that can be relied on; files that are complete or absent need none.
#pragma once

#include <string>
#include <vector>

#include "preprocess/build.hpp"

namespace lm::preprocess {

struct BuildResult {
    // True when this run has encoded something. False when an earlier run had encoded all inputs,
    // so that this run has at most renamed the outputs.
    bool built = false;
    // Set only when `built`. resumed_bytes: the bytes of input that earlier runs had encoded.
    BuildTotals totals;
    i64 resumed_bytes = 0;
    std::vector<std::string> prefixes;  // [keys] the prefix of each output
};

// Builds the datasets. Throws Stopped when the observer requests a stop. With options.resume, the
// work directory then contains all encoded data; without options.resume, the directory is removed.
BuildResult build_datasets(const BuildOptions& options, BuildObserver& observer);

}  // namespace lm::preprocess
