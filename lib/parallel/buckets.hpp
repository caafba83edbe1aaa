// SPDX-License-Identifier: Apache-2.0
// Divides a rank's flat buffers for data parallelism. A buffer is divided into buckets, which are
// reduced and gathered one at a time during compute. A bucket is divided into equal parts, one for
// each data-parallel rank. A rank owns its parts: it adds the gradients of these parts to the
// global norm, and writes these parts to checkpoints. With ZeRO-1 it has optimizer state only for
// its parts (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
// parameter models").
#pragma once

#include <vector>

#include "base/range.hpp"
#include "spec/rank_layout.hpp"

namespace lm::parallel {

// Returns Megatron's default for --ddp-bucket-size. With this size, the part of each rank is large
// enough to use the network's bandwidth.
i64 default_bucket_elements(i64 dp_size);

// Returns `n_elements` of the layout, rounded up so that `dp_size` ranks can share the buffer in
// equal parts. The padding contains zeros.
i64 padded_elements(i64 n_elements, i64 dp_size);

// Returns buckets of about `bucket_elements` over [0, padded_elements), ascending and without gaps.
// The elements [0, shared_end) are the tied word embedding matrix of the first and the last stage.
// This matrix has its own buckets, so that both stages divide and own the matrix in the same way.
std::vector<Range> divide_into_buckets(i64 n_elements, i64 dp_size, i64 bucket_elements,
                                       i64 shared_end);

// Returns part `dp_rank` of `dp_size` of a bucket.
Range part_of(const Range& bucket, i64 dp_size, i64 dp_rank);

}  // namespace lm::parallel
