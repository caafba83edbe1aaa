// SPDX-License-Identifier: Apache-2.0
// The index of Megatron's orders in a file that all processes of a node map: the first process
// builds it, the others wait for it. The file name has a digest of everything that decides the
// index, so a file that is found is the right one. The file appears whole or not at all.
#pragma once

#include <string>

#include "data/sampling/megatron_index.hpp"

namespace lm::data {

struct IndexCache {
    std::string directory;  // empty: every process builds its own, in memory
    i64 least_bytes = 0;    // a smaller index is built in memory
};

// Returns a directory below $TMPDIR or /tmp that only this user can write, and creates it if
// necessary; empty when there is none.
std::string private_index_directory();

// Returns the index from the cache; builds it with `n_threads` and stores it when it does not
// exist. When the cache cannot be written, warns and returns an index in memory.
MegatronIndex shared_index(const IndexCache& cache, const TokenRange& range, i64 seq_length,
                           const EpochPlan& plan, u32 seed, int n_threads);

}  // namespace lm::data
