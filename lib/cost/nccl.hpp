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
// The default of --tensor-comm-sms. It is a constant, because the best number depends on the links
// of the machine, not on the plan. With sequence parallelism a layer has 10 tensor-parallel
// collectives, all on one communicator. GEMMs overlap with 4 of them and lose one SM per channel.
// The other 6 overlap with no GEMM; channels shorten them until the links are saturated.
//
// The number is not measured. It comes from a model of the time of the collectives and GEMMs on an
// H100: 600 TFLOP/s, 132 SMs, NVLink with 360 GB/s, 8192 rows, C = 4096, 2, 4 or 8 ranks. The table
// has the largest extra time compared with the best number of channels. The last line also covers C
// from 2048 to 8192, and an A100: 240 TFLOP/s, 108 SMs, 230 GB/s, 10 to 13 GB/s per channel.
//
//     GB/s per channel    best      16 channels    20      22     24
//     20                  18        6 %            -       3 %    5 %
//     15                  20..24    27 %           8 %     4 %    -
//     all cases           -         50 %           20 %    9 %    12 %
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
