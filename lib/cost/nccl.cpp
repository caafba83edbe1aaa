// SPDX-License-Identifier: Apache-2.0
#include "cost/nccl.hpp"

namespace lm::cost {

using namespace spec;
namespace {

constexpr i64 mib = i64{1} << 20;
constexpr i64 unlimited_channels = 24;
constexpr i64 connection_bytes = 10 * mib;
constexpr i64 first_operations_bytes = mib;  // lib/cuda/nccl/nccl_channel.cpp

i64 collectives_bytes(i64 n_channels) {
    return n_channels * 2 * connection_bytes + first_operations_bytes;
}

// Returns the number of links of a stage: a link to and a link from each neighbour.
i64 n_links(const ParallelConfig& parallel, i64 pp_rank) {
    if (parallel.pp == 1) return 0;
    const bool at_end = pp_rank == 0 || pp_rank == parallel.pp - 1;
    return at_end && parallel.n_chunks == 1 ? 2 : 4;
}

}  // namespace

i64 nccl_bytes(const ParallelConfig& parallel, i64 pp_rank, bool overlap, bool tied,
               i64 tensor_channels) {
    i64 bytes = 0;
    if (parallel.tp > 1) {
        bytes += collectives_bytes(tensor_channels > 0 ? tensor_channels : unlimited_channels);
    }
    if (parallel.dp > 1) {
        bytes += collectives_bytes(overlap ? nccl_overlap_channels : unlimited_channels);
    }
    if (parallel.pp == 1) return bytes;
    const bool first = pp_rank == 0;
    const bool last = pp_rank == parallel.pp - 1;
    // The first and the last stage sum the gradients of the word embedding.
    if (tied && (first || last)) bytes += collectives_bytes(nccl_overlap_channels);
    const i64 link = nccl_link_channels * connection_bytes + first_operations_bytes;
    return bytes + n_links(parallel, pp_rank) * link;
}

int nccl_blocks(const ParallelConfig& parallel, i64 pp_rank, bool collectives) {
    const int links = static_cast<int>(n_links(parallel, pp_rank)) * nccl_link_channels;
    return links + (collectives && parallel.dp > 1 ? nccl_overlap_channels : 0);
}

}  // namespace lm::cost
