// SPDX-License-Identifier: Apache-2.0
// The number of model replicas that the ranks of a training hold, and the batch sizes that the
// ranks can divide.
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "spec/batch_ramp.hpp"
#include "spec/parallel_config.hpp"

namespace lm::config {

struct Ranks {
    i64 dp = 1;           // number of model replicas
    i64 per_replica = 1;  // ranks of one replica
    i64 world() const { return dp * per_replica; }
};

// Divides `n` ranks into model replicas with the sizes of `parallel`, whose dp is ignored. Throws
// Error(usage) naming --world-size when `n` is not a multiple of the ranks of a replica.
Ranks replicas_of(i64 n, const spec::ParallelConfig& parallel);

// Divides the `n` ranks that the launcher started into model replicas, as replicas_of() does. The
// error names a parallel flag instead of --world-size.
Ranks started_replicas(i64 n, const spec::ParallelConfig& parallel);

// Returns the nearest multiples of `unit` below and above `n`, for an error message: "16 or 24".
std::string multiples_around(i64 n, i64 unit);

// Returns a text "--flag: problem: remedy" when the ranks cannot divide the full batch into whole
// micro-batches, and another text when they cannot divide the batches of the ramp. The remedy names
// the nearest values that work. Batch sizes that the training has left behind after `consumed`
// samples are not checked.
std::vector<std::string> batch_problems(const spec::BatchRamp& ramp, i64 micro_batch,
                                        const Ranks& ranks, i64 consumed = 0);

}  // namespace lm::config
