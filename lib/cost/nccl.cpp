// SPDX-License-Identifier: Apache-2.0
#include "cost/nccl.hpp"

#include <algorithm>

#include "base/types.hpp"

namespace lm::cost {

using namespace spec;
namespace {

constexpr i64 mib = i64{1} << 20;
constexpr i64 unlimited_channels = 24;
constexpr i64 connection_bytes = 10 * mib;
constexpr i64 first_operations_bytes = mib;  // lib/cuda/nccl/nccl_channel.cpp
constexpr i64 gpus_of_node = 8;
constexpr i64 nvls_channels = 16;               // NVLS_NCHANNELS_SM90
constexpr i64 nvls_bytes_of_channel = 2 * mib;  // for each rank of the node
constexpr i64 nvls_counter_bytes = 2 * mib;     // a page
constexpr i64 least_nvls_ranks = 3;             // NCCL 2.30: 2

// Returns the memory of a communicator for collectives. `n_channels` 0 means no limit. `n_in_node`
// is the number of the communicator's ranks in the node of this rank.
i64 collectives_bytes(i64 n_channels, i64 n_in_node, bool nvls) {
    if (n_channels == 0) n_channels = unlimited_channels;
    const i64 ring = n_channels * 2 * connection_bytes + first_operations_bytes;
    if (!nvls || n_in_node < least_nvls_ranks) return ring;
    return ring + std::min(n_channels, nvls_channels) * n_in_node * nvls_bytes_of_channel +
           nvls_counter_bytes;
}

// Returns the number of links of a stage: a link to and a link from each neighbour.
i64 n_links(const ParallelConfig& parallel, i64 pp_rank) {
    if (parallel.pp == 1) return 0;
    const bool at_end = pp_rank == 0 || pp_rank == parallel.pp - 1;
    return at_end && parallel.n_chunks == 1 ? 2 : 4;
}

}  // namespace

double tensor_seconds(const ModelConfig& model, const ParallelConfig& parallel,
                      const TensorLinks& links, i64 n) {
    constexpr double element_bytes = 2;
    const double tp = as_double(parallel.tp);
    const double hidden = as_double(model.hidden);
    const double rate = std::min(as_double(n) * links.channel_bytes_per_s, links.bytes_per_s);
    // An all-gather or a reduce-scatter; an all-reduce takes twice this time.
    const double gather_s = (tp - 1) / tp * element_bytes * hidden / rate;
    const double used = as_double(links.sms - n) / as_double(links.sms);
    double seconds = 0;
    for (const LayerConfig& layer : layer_kinds(model)) {
        const double up = as_double((is_gated(layer.activation) ? 2 : 1) * model.ffn_hidden);
        double layer_s = parallel.sequence_parallel ? 6 * gather_s : 2 * 2 * gather_s;
        for (const double outputs : {as_double(model.qkv_rows(layer)) / tp, up / tp}) {
            const double gemm_s = 2 * hidden * outputs / links.flops / used;
            layer_s += parallel.sequence_parallel ? 2 * std::max(gather_s, gemm_s)
                                                  : std::max(2 * gather_s, gemm_s);
        }
        const double share = as_double(count_layers(model, layer)) / as_double(model.n_layers);
        seconds += share * layer_s;
    }
    return seconds;
}

i64 tensor_comm_sms(const ModelConfig& model, const ParallelConfig& parallel) {
    if (parallel.tp == 1) return 0;
    i64 best = 1;
    double least_s = tensor_seconds(model, parallel, h100_links, best);
    for (i64 n = 2; n <= unlimited_channels; ++n) {
        const double seconds = tensor_seconds(model, parallel, h100_links, n);
        if (seconds >= least_s) continue;
        best = n;
        least_s = seconds;
    }
    return best;
}

i64 nccl_bytes(const ModelConfig& model, const ParallelConfig& parallel, i64 pp_rank,
               const NcclUse& use) {
    i64 bytes = 0;
    if (parallel.tp > 1) {
        const i64 n = use.tensor_comm_sms.value_or(tensor_comm_sms(model, parallel));
        bytes += collectives_bytes(n, std::min(parallel.tp, gpus_of_node), use.nvls);
    }
    if (parallel.dp > 1) {
        // The ranks of a group are tp ranks apart.
        const i64 in_node = std::min(parallel.dp, gpus_of_node / parallel.tp);
        bytes += collectives_bytes(use.overlap ? nccl_overlap_channels : 0, in_node, use.nvls);
    }
    if (parallel.pp == 1) return bytes;
    const bool first = pp_rank == 0;
    const bool last = pp_rank == parallel.pp - 1;
    // The first and the last stage sum the gradients of the word embedding: two ranks.
    if (!model.untied_head && (first || last)) {
        bytes += collectives_bytes(nccl_overlap_channels, 2, use.nvls);
    }
    const i64 link = nccl_link_channels * connection_bytes + first_operations_bytes;
    return bytes + n_links(parallel, pp_rank) * link;
}

int nccl_blocks(const ParallelConfig& parallel, i64 pp_rank, bool collectives) {
    const int links = static_cast<int>(n_links(parallel, pp_rank)) * nccl_link_channels;
    return links + (collectives && parallel.dp > 1 ? nccl_overlap_channels : 0);
}

}  // namespace lm::cost
