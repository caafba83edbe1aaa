// SPDX-License-Identifier: Apache-2.0
// The index of Megatron's orders in a file that all processes of a node map: the first that comes
// builds it, the others wait for it. The name holds a digest of all that decides the index, so a
// file fits or is not found; it appears whole or not at all.
#pragma once

#include <string>

#include "data/sampling/megatron_index.hpp"

namespace lm::data {

struct IndexCache {
    std::string directory;  // empty: every process builds its own, in memory
    i64 least_bytes = 0;    // smaller ones are not worth a file
};

// A directory of this user under $TMPDIR or /tmp; empty when there is none that only this user can
// write.
std::string private_index_directory();

// The index from the cache, or built with `n_threads` and left there. A cache that cannot be
// written is a warning.
MegatronIndex shared_index(const IndexCache& cache, const TokenRange& range, i64 seq_length,
                           const EpochPlan& plan, u32 seed, int n_threads);

}  // namespace lm::data
