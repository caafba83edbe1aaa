// SPDX-License-Identifier: Apache-2.0
// What NCCL takes of a GPU for the communicators of one rank: memory, beside the plan's buffers,
// and multiprocessors, beside products.
#pragma once

#include "spec/rank_layout.hpp"

namespace lm::cost {

// The most thread blocks (channels, of which each takes a multiprocessor and buffers of its own)
// that a communicator gets: messages between pipeline stages, and collectives that go on beside
// compute. NCCL_MAX_CTAS overrides them.
constexpr int nccl_link_channels = 2;
constexpr int nccl_overlap_channels = 16;

// An estimate, from NCCL's sources (2.28): it depends on links and topology, which only NCCL knows.
// Each channel has a connection to and from its neighbours on the ring, and each connection buffers
// for three protocols, 0.5, 4.7 and 4 MiB (init.cc, computeBuffSizes), in pages of 2 MiB. Where
// nothing limits them there are 24 channels, as on eight H100 with NVLink. `overlap`: data
// parallelism goes on beside compute. `tied`: the first and the last stage share the word table.
i64 nccl_bytes(const spec::ParallelConfig& parallel, i64 pp_rank, bool overlap, bool tied);

// The most thread blocks of NCCL's kernels that run while a stage computes: of its links, which may
// wait there for their message, and with `collectives` of data parallelism.
int nccl_blocks(const spec::ParallelConfig& parallel, i64 pp_rank, bool collectives);

}  // namespace lm::cost
