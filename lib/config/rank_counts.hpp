// SPDX-License-Identifier: Apache-2.0
// How many replicas of the model the ranks of a training hold, and which batches they can share.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "spec/batch_ramp.hpp"

namespace lm::config {

struct Ranks {
    i64 dp = 1;           // replicas of the model
    i64 per_replica = 1;  // tensor x pipeline
    i64 world() const { return dp * per_replica; }
};

// `n` ranks as replicas of tp x pp. Throws Error(usage) naming --world-size when that leaves some
// over.
Ranks replicas_of(i64 n, i64 tp, i64 pp);

// The same for `n` ranks that were started, naming the flags of the cut.
Ranks started_replicas(i64 n, i64 tp, i64 pp);

// "16 or 24": the multiples of `unit` around `n`, for the text of an error.
std::string multiples_around(i64 n, i64 unit);

// Returns a text "--flag: problem: remedy" for the full batch and one for the batches of the ramp
// where the ranks cannot share them in whole micro-batches; the remedy names the nearest values
// that work.
std::vector<std::string> batch_problems(const spec::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks);

}  // namespace lm::config
