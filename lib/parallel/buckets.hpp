// SPDX-License-Identifier: Apache-2.0
// Divides a rank's flat buffers for data parallelism. A buffer is divided into buckets, which are
// reduced and gathered one at a time during compute. A bucket is divided into equal parts, one for
// each data-parallel rank. A rank owns its parts: it adds the gradients of these parts to the
// global norm, and writes these parts to checkpoints. With ZeRO-1 it has optimizer state only for
// its parts (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion
// parameter models").
//
// Why flat ranges, and not whole tensors or layers. The shard of a rank is a range of elements that
// may begin and end inside of a tensor.
//
// - A reduce-scatter needs equal parts. Whole tensors would have to be packed into ranks, and the
//   word embedding alone has a third of the parameters of GPT-2 124M, so that its rank would hold,
//   update and send many times the bytes of the others. Flat parts differ by padding only.
// - One bucket is one message of one size, whatever tensors it holds. A network needs some MB a
//   message and rank to reach its rate, which is why the default bucket grows with the number of
//   ranks.
// - AdamW is elementwise. It needs no shape, so that one kernel call updates a part with all its
//   tensors. The places where the shape does matter are few and are looked up per element range:
//   weight decay and learning rate groups, and the norm of single tensors for the log.
//
// The price is paid elsewhere. A checkpoint slice needs a range inside of a box in addition to the
// box (flat_begin and flat_end in ckpt/format/index.hpp), and an optimizer that works on whole
// matrices finds none on any rank: it must ask for another division. Both were judged cheaper than
// the imbalance. Megatron-LM's distributed optimizer divides its flat buffers in the same way.
//
// Why ZeRO-1, and neither divided gradients (ZeRO-2) nor divided weights (ZeRO-3). A stage of a
// pipeline runs backward for many micro-batches, and each adds to all gradients of the stage. Ranks
// that keep only their part must reduce after every micro-batch, not once a step: with 64
// micro-batches 64 times the messages, for 4 bytes a parameter. (DeepSpeed refuses ZeRO-2 and 3
// with its pipeline, too.) Divided weights are gathered for forward and again for backward of every
// micro-batch, at the time when they are needed. Tensor and pipeline parallelism divide weights and
// gradients as well, with messages of activations, most of them inside of a node. 13B parameters at
// tp 8 leave 1.6e9 a rank, 10 GB of weights and gradients. The price: a model that fits no node by
// tp and pp cannot be trained with data parallelism alone.
//
// The tied word embedding has its own buckets, because the first and the last stage must own the
// same elements of it: then each sums its parts with the other stage's after the reduction, with a
// message of 1/dp of the matrix, and both update it with equal bits.
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
