// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, of a library that is opened when ranks come together: training on one GPU
// needs none.
#pragma once

#include <nccl.h>

namespace lm::cuda {

#define LM_NCCL_FUNCTIONS(each)                                                               \
    each(GetVersion) each(GetErrorString) each(GetLastError) each(GetUniqueId)                \
        each(CommInitRankConfig) each(CommSplit) each(CommGetAsyncError) each(CommFinalize)   \
            each(CommDestroy) each(CommAbort) each(GroupStart) each(GroupEnd) each(AllReduce) \
                each(ReduceScatter) each(AllGather) each(Broadcast) each(Send) each(Recv)

struct Nccl {
#define LM_MEMBER(name) decltype(&nccl##name) name = nullptr;
    LM_NCCL_FUNCTIONS(LM_MEMBER)
#undef LM_MEMBER
    // From 2.23 on, and so not in the oldest header; nullptr in a library that lacks it. As
    // CommInitRankConfig, but ranks meet at several places, an id for each.
    ncclResult_t (*CommInitRankScalable)(ncclComm_t* comm, int n_ranks, int rank, int n_ids,
                                         ncclUniqueId* ids, ncclConfig_t* config) = nullptr;
};

// libnccl.so.2 beside the plugin, or where the loader finds it. Throws Error(failure) saying what
// to install, when there is none or one that is too old.
const Nccl& nccl();

}  // namespace lm::cuda
