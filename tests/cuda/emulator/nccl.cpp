// SPDX-License-Identifier: Apache-2.0
// Emulated NCCL functions. Calls that NCCL forbids are reported on stderr: calls with host
// pointers, with different sizes on different ranks, with a communicator that was destroyed, or
// with one communicator in two streams.
#include "nccl.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory.hpp"
#include "nccl_comm.hpp"
#include "stream.hpp"

using emulator::Exchange;
using emulator::Frame;
using emulator::FrameType;
using emulator::lives;
using emulator::new_comm;
using emulator::Started;

namespace {

ncclResult_t misuse(ncclResult_t result, const std::string& what) {
    fmt::print(stderr, "emulated NCCL: {}\n", what);
    return result;
}

// Returns ncclSuccess when the communicator may be used.
ncclResult_t check(ncclComm_t comm) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    const std::lock_guard lock(comm->mutex);
    return comm->state;
}

struct Side {
    const void* data;
    size_t bytes;
};

ncclResult_t begin(ncclComm_t comm, cudaStream_t stream, Frame frame, Side in, Side out) {
    if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
    if (comm->stream == nullptr) comm->stream = stream;
    if (stream != comm->stream || stream == nullptr) {
        return misuse(ncclInvalidUsage,
                      "a communicator is used in two streams, or in the legacy stream");
    }
    for (const Side& side : {in, out}) {
        if (side.bytes > 0 && !emulator::is_device(side.data, side.bytes)) {
            return misuse(ncclInvalidArgument, "a buffer that is not memory of the device");
        }
    }
    auto started = std::make_shared<Started>();
    started->frame = frame;
    started->in = in.data;
    started->in_bytes = in.bytes;
    started->out = const_cast<void*>(out.data);
    started->stream = stream;
    return comm->start(std::move(started));
}

Frame collective(Exchange exchange, size_t count, ncclDataType_t dtype, ncclRedOp_t op = ncclSum,
                 int root = 0) {
    Frame frame;
    frame.exchange = exchange;
    frame.count = count;
    frame.dtype = dtype;
    frame.op = op;
    frame.root = root;
    return frame;
}

// Returns true when the part does not overlap the whole, or is this rank's part of it.
bool placed(const void* whole, const void* part, size_t part_bytes, ncclComm_t comm) {
    const auto* const begin = static_cast<const std::byte*>(whole);
    const auto* const at = static_cast<const std::byte*>(part);
    const size_t n = part_bytes * static_cast<size_t>(comm->size);
    return at == begin + part_bytes * static_cast<size_t>(comm->rank) || at + part_bytes <= begin ||
           at >= begin + n;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
    const char* const text = std::getenv("EMULATED_NCCL_VERSION");
    *version = text != nullptr ? std::atoi(text) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
    constexpr const char* texts[] = {"no error",
                                     "unhandled cuda error",
                                     "unhandled system error",
                                     "internal error",
                                     "invalid argument",
                                     "invalid usage",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
    return texts[result];
}

const char* ncclGetLastError(ncclComm_t comm) {
    return comm != nullptr && lives(comm) ? comm->error.c_str() : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    const std::string name = emulator::start_hub();
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, name.data(), name.size());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    if (config->blocking != 1) return misuse(ncclInvalidUsage, "a nonblocking communicator");
    *comm = new_comm(rank, n_ranks, {id.internal});
    return (*comm)->wait_until_joined();
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int n_ranks, int rank, int n_ids,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
    if (config->blocking != 1) return misuse(ncclInvalidUsage, "a nonblocking communicator");
    if (n_ids > n_ranks) return misuse(ncclInvalidArgument, "more ids than ranks");
    std::vector<std::string> hubs;
    for (int i = 0; i < n_ids; ++i) hubs.emplace_back(ids[i].internal);
    *comm = new_comm(rank, n_ranks, hubs);
    return (*comm)->wait_until_joined();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    const std::lock_guard lock(comm->mutex);
    *error = comm->state;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    return check(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    bool busy = false;
    {
        const std::lock_guard lock(comm->mutex);
        busy = !comm->under_way.empty() && comm->state == ncclSuccess;
    }
    if (busy) misuse(ncclInvalidUsage, "a communicator destroyed with pending operations");
    return ncclCommAbort(comm);
}

// Does not delete the communicator, because work in streams may still refer to it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!emulator::forget(comm)) {
        return misuse(ncclInvalidArgument, "a communicator that has ended");
    }
    comm->leave();
    return ncclSuccess;
}

// lib/cuda uses group calls only to destroy communicators. The emulator destroys them one by one.
ncclResult_t ncclGroupStart() {
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * emulator::size_of(dtype);
    return begin(comm, stream, collective(Exchange::all_reduce, count, dtype, op), {in, bytes},
                 {out, bytes});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t out_count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = out_count * emulator::size_of(dtype);
    if (lives(comm) && !placed(in, out, bytes, comm)) {
        return misuse(ncclInvalidUsage, "ncclReduceScatter into a part that is not this rank's");
    }
    return begin(comm, stream, collective(Exchange::reduce_scatter, out_count, dtype, op),
                 {in, bytes * static_cast<size_t>(comm->size)}, {out, bytes});
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t in_count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = in_count * emulator::size_of(dtype);
    if (lives(comm) && !placed(out, in, bytes, comm)) {
        return misuse(ncclInvalidUsage, "ncclAllGather from a part that is not this rank's");
    }
    return begin(comm, stream, collective(Exchange::all_gather, in_count, dtype), {in, bytes},
                 {out, bytes * static_cast<size_t>(comm->size)});
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * emulator::size_of(dtype);
    return begin(comm, stream, collective(Exchange::broadcast, count, dtype, ncclSum, root),
                 {in, bytes}, {out, bytes});
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    Frame frame = collective(Exchange::message, count, dtype);
    frame.channel = emulator::message_channel(comm->rank, peer, comm->size);
    return begin(comm, stream, frame, {in, count * emulator::size_of(dtype)}, {nullptr, 0});
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    Frame frame = collective(Exchange::message, count, dtype);
    frame.channel = emulator::message_channel(peer, comm->rank, comm->size);
    return begin(comm, stream, frame, {nullptr, 0}, {out, count * emulator::size_of(dtype)});
}
