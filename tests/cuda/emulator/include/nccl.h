// SPDX-License-Identifier: Apache-2.0
// The emulator's nccl.h: the part of NCCL that lib/cuda uses, with the names, values and behavior
// of NCCL's API reference. Where NCCL leaves the behavior open (how long a send waits for its
// receive), the emulator chooses the strictest behavior. Communicators must be blocking.
#pragma once

#include <climits>
#include <cstddef>

#include "cuda_runtime.h"

#define NCCL_MAJOR 2
#ifndef NCCL_MINOR
#define NCCL_MINOR 28
#endif
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR -1

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
    char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2 };
enum ncclDataType_t {
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt64 = 4,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9
};

struct ncclConfig_t {
    int blocking = INT_MIN;
    int maxCTAs = INT_MIN;
    int splitShare = INT_MIN;
#if NCCL_MINOR >= 27
    const char* commName = nullptr;
#endif
};
#define NCCL_CONFIG_INITIALIZER \
    {}

extern "C" {
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
#if NCCL_MINOR >= 23
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int n_ranks, int rank, int n_ids,
                                      ncclUniqueId* ids, ncclConfig_t* config);
#endif
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t out_count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* in, void* out, size_t in_count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream);
}  // extern "C"
