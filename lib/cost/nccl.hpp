// SPDX-License-Identifier: Apache-2.0
// The memory and SMs that NCCL uses on a GPU for the communicators of one rank. The memory plan
// does not include this memory, and matrix products cannot use these SMs.
#pragma once

#include "spec/rank_layout.hpp"

namespace lm::cost {

// The largest number of channels of a communicator: for links between pipeline stages, for
// data-parallel collectives that overlap with computation, and for tensor parallelism. A channel is
// one thread block, which occupies an SM and has its own buffers. The environment variable
// NCCL_MAX_CTAS overrides all three.
constexpr int nccl_link_channels = 2;
constexpr int nccl_overlap_channels = 16;
// The default of --tensor-comm-sms. A constant, because the best number depends on the links of
// the machine rather than on the plan. All tensor-parallel collectives share a communicator, so
// the limit also slows those that no product hides, 6 of 10 of a layer with sequence parallelism.
// Their time falls until the channels saturate the links, while the products of the other 4 lose n
// of 132 SMs. Not measured; a model of their sum on an H100, with 600 TFLOP/s, 8192 rows, C = 4096
// and 2, 4 or 8 ranks: if a channel has 20 GB/s of NVLink's 360 GB/s, 18 channels are best, 16 cost
// up to 6 % more, 22 up to 3 %, 24 up to 5 %. With 15 GB/s, 20 to 24 are best, and 16 cost up to
// 27 % more, 20 up to 8 %, 22 up to 4 %. 22 has the smallest largest cost, also over C from 2048 to
// 8192 and an A100 (240 TFLOP/s, 108 SMs, 10 to 13 of 230 GB/s): at most 9 % more than the best
// number of each case; 16 cost up to 50 %, 20 up to 20 %, 24 up to 12 %.
constexpr int nccl_tensor_channels = 22;

// Returns an estimate of NCCL's memory, derived from the sources of NCCL 2.28. The exact value
// depends on links and topology, which only NCCL knows. Each channel has a connection to and from
// each neighbour on the ring. Each connection has buffers for three protocols of 0.5, 4.7 and 4 MiB
// (init.cc, computeBuffSizes), in pages of 2 MiB. Without a limit there are 24 channels, as on
// eight H100 with NVLink. `overlap`: data parallelism overlaps with computation. `tied`: the first
// and the last stage share the word embedding. `tensor_channels`: --tensor-comm-sms; 0: no limit.
i64 nccl_bytes(const spec::ParallelConfig& parallel, i64 pp_rank, bool overlap, bool tied,
               i64 tensor_channels = nccl_tensor_channels);

// Returns the largest number of NCCL's thread blocks that run while a stage computes: the blocks of
// its links, which wait for their messages, and with `collectives` the blocks of data parallelism.
int nccl_blocks(const spec::ParallelConfig& parallel, i64 pp_rank, bool collectives);

}  // namespace lm::cost
