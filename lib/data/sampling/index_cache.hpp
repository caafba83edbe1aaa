// SPDX-License-Identifier: Apache-2.0
// Stores the index of Megatron's orders in a file that all processes of a node map. The first
// process builds the file, and the others wait for it. The file name contains a digest of
// everything that determines the index, so an existing file with this name is always the right one,
// and it is always complete.
#pragma once

#include <string>

#include "data/sampling/megatron_index.hpp"

namespace lm::data {

struct IndexCache {
    std::string directory;  // empty: every process builds its own index in memory
    i64 least_bytes = 0;    // a smaller index is built in memory
};

// Returns a directory below $TMPDIR or /tmp to which only this user can write. Creates it if
// necessary. Returns an empty string when there is no such directory.
std::string private_index_directory();

// Returns the index from the cache. If the cache does not have it, builds it with `n_threads`
// threads and stores it. When the cache cannot be written, warns and returns an index in memory.
MegatronIndex shared_index(const IndexCache& cache, const TokenRange& range, i64 seq_length,
                           const EpochPlan& plan, u32 seed, int n_threads);

}  // namespace lm::data
