// SPDX-License-Identifier: Apache-2.0
// Blocks that threads fill in advance, for output in a fixed order.
#pragma once

#include <functional>

#include "io/block_file.hpp"

namespace lm::io {

// For every i in [0, n), one of `n_threads` other threads calls produce(i, block), in about
// ascending order. Then the calling thread calls consume(i, block) with the same block, in
// ascending order. At most 2 * n_threads blocks exist. Returns when all calls have returned. After
// an error no further call starts, and the first error is rethrown at the end.
void for_each_block_in_order(i64 n, int n_threads,
                             const std::function<void(i64 i, AlignedBlock& block)>& produce,
                             const std::function<void(i64 i, AlignedBlock& block)>& consume);

}  // namespace lm::io
