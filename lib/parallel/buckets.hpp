// SPDX-License-Identifier: Apache-2.0
// How a rank's flat buffers are cut for data parallelism: into buckets that are reduced and
// gathered one at a time while compute goes on, and each bucket into equal parts, one a
// data-parallel rank. The part is what the rank owns: its optimizer state with ZeRO-1 (Rajbhandari
// et al. 2020, "ZeRO: memory optimizations toward training trillion parameter models"), and in any
// case what it adds to the global gradient norm and writes to checkpoints.
#pragma once

#include <vector>

#include "base/range.hpp"
#include "spec/rank_layout.hpp"

namespace lm::parallel {

// Megatron's default for --ddp-bucket-size: large enough that a bucket's parts keep a network busy.
i64 default_bucket_elements(i64 dp_size);

// Elements of a flat buffer that `dp_size` ranks can share in equal parts: `n_elements` of the
// layout, rounded up. What is added holds zeros.
i64 padded_elements(i64 n_elements, i64 dp_size);

// Buckets of about `bucket_elements`, ascending and adjoining, over [0, padded_elements). The
// elements [0, shared_end), the word table that first and last stage share, are cut first and by
// themselves, so that both stages cut and own it alike.
std::vector<Range> cut_buckets(i64 n_elements, i64 dp_size, i64 bucket_elements, i64 shared_end);

// Part `dp_rank` of `dp_size` of a bucket.
Range part_of(const Range& bucket, i64 dp_size, i64 dp_rank);

}  // namespace lm::parallel
