// SPDX-License-Identifier: Apache-2.0
// How many replicas of the model so many ranks are.
#pragma once

#include <string>

#include "base/types.hpp"

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

}  // namespace lm::config
