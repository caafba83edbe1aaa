// SPDX-License-Identifier: Apache-2.0
// NCCL's functions. The NCCL library is opened at run time, and only when there are several ranks,
// because training on one GPU does not need NCCL.
#pragma once

#include <nccl.h>

namespace lm::cuda {

#define LM_NCCL_FUNCTIONS(each)                                                                 \
    each(GetVersion) each(GetErrorString) each(GetLastError) each(GetUniqueId)                  \
        each(CommInitRankConfig) each(CommGetAsyncError) each(CommFinalize) each(CommDestroy)   \
            each(CommAbort) each(GroupStart) each(GroupEnd) each(AllReduce) each(ReduceScatter) \
                each(AllGather) each(Broadcast) each(Send) each(Recv)

struct Nccl {
#define LM_MEMBER(name) decltype(&nccl##name) name = nullptr;
    LM_NCCL_FUNCTIONS(LM_MEMBER)
#undef LM_MEMBER
    // ncclCommInitRankScalable: like CommInitRankConfig, but with several bootstrap roots, each
    // with its own id. NCCL 2.23 added this function, so the oldest supported header does not
    // declare it. nullptr with older libraries.
    ncclResult_t (*CommInitRankScalable)(ncclComm_t* comm, int n_ranks, int rank, int n_ids,
                                         ncclUniqueId* ids, ncclConfig_t* config) = nullptr;
};

// Returns the functions of libnccl.so.2, in the plugin's directory or where the dynamic loader
// finds it. Throws Error(failure) with the version to install when the library is missing or too
// old.
const Nccl& nccl();

}  // namespace lm::cuda
