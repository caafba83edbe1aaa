// SPDX-License-Identifier: Apache-2.0
// The memory and SMs that NCCL uses on a GPU for the communicators of one rank. The memory plan
// does not include this memory, and matrix products cannot use these SMs.
#pragma once

#include <optional>

#include "spec/model.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// The largest number of channels of a communicator for links between pipeline stages, and for
// data-parallel collectives that overlap with computation. A channel is one thread block, which
// occupies an SM and has its own buffers. The environment variable NCCL_MAX_CTAS overrides both
// numbers and --tensor-comm-sms.
constexpr int nccl_link_channels = 2;
constexpr int nccl_overlap_channels = 16;

// The speed of a GPU and of its links, for tensor_comm_sms().
struct TensorLinks {
    double flops;                // FLOP/s of large GEMMs in 16 bits
    int sms;                     // SMs of the GPU
    double bytes_per_s;          // NVLink in one direction: rate of a large collective
    double channel_bytes_per_s;  // rate of one channel
};
// An H100 with the link of share/hardware/h100.txt. The rate of a channel is assumed: 15 to 20 GB/s
// are reported. tests/cost/nccl_test.cpp states the cost of the assumption.
constexpr TensorLinks h100_links{
    .flops = 600e12, .sms = 132, .bytes_per_s = 360e9, .channel_bytes_per_s = 16e9};

// Returns the seconds that a token spends in the tensor-parallel collectives of a layer, the mean
// of all layers, and in the GEMMs that overlap with them, with `n` channels, which these GEMMs do
// not use. Backward of a column-parallel layer (QKV, first product of the MLP) has a GEMM for the
// gradient of the weight, which overlaps with the sum of the input's gradient. With sequence
// parallelism that sum is a reduce-scatter, and the GEMM for the gradient of the input overlaps
// with an all-gather. All other collectives overlap with no GEMM: the second half of the
// all-reduces, or 6 of the 10 all-gathers and reduce-scatters. A GEMM and a collective that overlap
// take as long as the slower one.
double tensor_seconds(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                      const TensorLinks& links, i64 n);

// Returns the default of --tensor-comm-sms: the number of channels with the least tensor_seconds()
// on an H100. More channels shorten the collectives until the link is saturated (23 channels), and
// prolong the GEMMs that overlap with them, which cannot use the SMs of the channels. So the number
// falls below 23 if these GEMMs are long compared with the collectives: with wide layers and few
// tensor ranks (16 for a hidden size of 8192 and two ranks). The default depends only on the model,
// on tp and on sequence parallelism, so that a run that resumes on other GPUs, or with another
// batch, plans the same GEMMs. Returns 0 without tensor parallelism.
i64 tensor_comm_sms(const spec::ModelConfig& model, const spec::ParallelConfig& parallel);

// The settings of a run that change NCCL's memory.
struct NcclUse {
    bool overlap = false;                // data parallelism overlaps with computation
    std::optional<i64> tensor_comm_sms;  // nullopt: tensor_comm_sms(); 0: no limit
    bool nvls = true;                    // false: NCCL_NVLS_ENABLE=0, with --deterministic-mode
};

// Returns an estimate of NCCL's memory, derived from the sources of NCCL 2.28. The exact value
// depends on links and topology, which only NCCL knows.
//
// Each channel has a connection to and from each neighbour on the ring. Each connection has buffers
// for three protocols of 0.5, 4.7 and 4 MiB (init.cc, computeBuffSizes), in pages of 2 MiB. Without
// a limit there are 24 channels, as on eight H100 with NVLink.
//
// NVLS (NVLink SHARP, H100 and later with NVSwitch) is available to communicators with more than
// two ranks in a node, here of 8 GPUs. It has up to 16 channels, each with two buffers of 8 steps
// of 128 KiB for each rank of the node (transport/nvls.cc, ncclNvlsBufferSetup): 256 MiB with 8
// ranks. The counters of the buffers take a page of 2 MiB. (In NCCL 2.20 and 2.21, the buffers have
// 6 and 3 MiB.)
i64 nccl_bytes(const spec::ModelConfig& model, const spec::ParallelConfig& parallel, i64 pp_rank,
               const NcclUse& use);

// Returns the largest number of NCCL's thread blocks that run while a stage computes: the blocks of
// its links, which wait for their messages, and with `collectives` the blocks of data parallelism.
int nccl_blocks(const spec::ParallelConfig& parallel, i64 pp_rank, bool collectives);

}  // namespace lm::cost
