// SPDX-License-Identifier: Apache-2.0
// Which batches and rank counts go together: everything about them that does not fit, each with the
// nearest values that would work. Arithmetic only; the cut of the model itself is config/'s.
#pragma once

#include <string>
#include <vector>

#include "optim/batch_ramp.hpp"

namespace lm::train {

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

// "--flag: what does not fit: what would": the full batch, and the batches of the ramp.
std::vector<std::string> batch_problems(const optim::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks);

}  // namespace lm::train
