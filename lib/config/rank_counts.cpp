// SPDX-License-Identifier: Apache-2.0
#include "config/rank_counts.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::config {

std::string multiples_around(i64 n, i64 unit) {
    const i64 below = n / unit * unit;
    return below > 0 ? fmt::format("{} or {}", below, below + unit)
                     : fmt::format("{}", below + unit);
}

Ranks started_replicas(i64 n, i64 tp, i64 pp) {
    const i64 replica = checked_mul(tp, pp);
    if (n % replica != 0) {
        usage_error(
            tp > 1 ? "--tensor-model-parallel-size" : "--pipeline-model-parallel-size",
            "{} tensor x {} pipeline ranks hold one model, but {} ranks were started: start "
            "{} (mpirun -n, srun -n)",
            tp, pp, n, multiples_around(n, replica));
    }
    return {n / replica, replica};
}

Ranks replicas_of(i64 n, i64 tp, i64 pp) {
    const i64 replica = checked_mul(tp, pp);
    constexpr i64 most_ranks = i64{1} << 24;  // a plan looks at every rank
    if (n < 1 || n > most_ranks) {
        usage_error("--world-size", "must be at least 1 and at most {}, but is {}", most_ranks, n);
    }
    if (n % replica != 0) {
        usage_error("--world-size",
                    "{} ranks are no multiple of {} tensor x {} pipeline ranks = {}: {} would work",
                    n, tp, pp, replica, multiples_around(n, replica));
    }
    return {n / replica, replica};
}

}  // namespace lm::config
