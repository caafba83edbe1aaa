// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator with its stream and its pending operations. NCCL runs the operations of a
// communicator in sequence, so operations that must not wait for each other need separate channels.
//
// Communicators are blocking, because a nonblocking one starts a host thread for every operation,
// which takes tens of microseconds (NCCL 2.28 to 2.30, group.cc, ncclGroupEndInternal). A call with
// a blocking communicator returns when the kernel of the call is in the stream. The call does not
// wait for other ranks once all connections exist; NcclWorld::form() and warm_up() make the
// connections. Only the call that initializes a communicator waits for other ranks. A helper thread
// makes this call, so that a missing rank ends in a timeout; the helper thread then stays in the
// call until the process ends.
//
// join(), formed(), idle(), start(), done(), release(), poll() and move_communicators() must be
// called with the mutex of NcclWorld locked.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "cuda/device/cuda_device.hpp"

namespace lm::cuda {

// An operation in a channel's stream. Its inputs are ready after the event `ready`, its results
// after the event `end`.
struct ChannelOperation {
    comm::Operation operation;
    i64 number = -1;       // collective number of the group; -1: a message
    bool warm_up = false;  // the operation only makes connections
    cudaEvent_t ready = nullptr;
    cudaEvent_t end = nullptr;
    bool complete = false;  // the operation has ended, and reap() has removed it from pending_
    bool held = false;      // a Work handle still refers to it
    double since_s = -1;    // time at which poll() saw that the inputs are ready; -1: not yet
};

// An error of a channel: an NCCL error, or an operation that timed out.
struct ChannelError {
    ChannelOperation culprit;  // the first pending operation
    std::string text;          // NCCL's message; empty: the operation timed out
    double waited_s = 0;
};

// Communicators to be destroyed.
using Communicators = std::vector<ncclComm_t>;

class NcclChannel {
  public:
    // Opens a channel of group `name`. `host`: the group that reports missing ranks. `peer`: the
    // channel is for messages between this rank and rank `peer` of `host`; -1: for collectives.
    // `max_blocks` is the maximum number of SMs that the channel's kernels occupy; 0: NCCL's
    // default. Allocates device memory and creates a stream.
    static std::shared_ptr<NcclChannel> open(CudaDevice& device, std::string name,
                                             std::shared_ptr<comm::Group> host, int rank, int size,
                                             int peer, int max_blocks);
    ~NcclChannel();
    NcclChannel(const NcclChannel&) = delete;
    NcclChannel& operator=(const NcclChannel&) = delete;

    // Starts to initialize the communicator in a helper thread. Call formed() until it returns
    // true. More than one id needs Nccl::CommInitRankScalable.
    void join(std::vector<ncclUniqueId> ids);
    bool formed();
    // Returns the operations to run first, in which NCCL allocates memory and makes connections: a
    // small and a large all-reduce, reduce-scatter and all-gather, or a small and a large message
    // from the first rank to the second.
    std::vector<comm::Operation> first_operations() const;
    bool idle();  // returns whether no operation is pending

    // Enqueues an operation, stream-ordered after all work of the compute stream so far, and after
    // the operation `after` if it is not nullptr. When a connection is missing, blocks until the
    // other members start the operation as well.
    ChannelOperation* start(const comm::Operation& operation, i64 number,
                            const ChannelOperation* after);
    bool done(ChannelOperation& operation);
    // Makes the operation's record reusable. Call it when no Work handle refers to the operation
    // any more.
    void release(ChannelOperation& operation);

    // Finds ended operations. Returns an error of NCCL, or of an operation that has waited for
    // longer than timeout_s. The monitor thread calls it a few times a second.
    std::optional<ChannelError> poll(double timeout_s);

    // Moves this channel's communicators to `comms`, for their destruction.
    void move_communicators(Communicators& comms);

    const std::string& name() const { return name_; }
    comm::Group& host() { return *host_; }

  private:
    NcclChannel(CudaDevice& device, std::string name, std::shared_ptr<comm::Group> host, int rank,
                int size, int peer, int max_blocks)
        : device_(device),
          name_(std::move(name)),
          host_(std::move(host)),
          rank_(rank),
          size_(size),
          peer_(peer),
          max_blocks_(max_blocks) {}

    ChannelOperation* acquire();
    void reap();
    void enqueue(const comm::Operation& operation);
    void finish_call(ncclResult_t result, const char* what);

    CudaDevice& device_;
    std::string name_;
    std::shared_ptr<comm::Group> host_;
    int rank_;
    int size_;
    int peer_;
    int max_blocks_;
    std::future<ncclComm_t> joining_;  // the result of the helper thread
    ncclComm_t comm_ = nullptr;
    device::Buffer first_data_;  // memory of first_operations()
    cudaStream_t stream_ = nullptr;
    std::vector<std::unique_ptr<ChannelOperation>> operations_;  // all records, for reuse
    std::vector<ChannelOperation*> unused_;
    std::deque<ChannelOperation*> pending_;  // in stream order
};

// Destroys communicators whose operations have ended. Uses one NCCL group call for all, because
// their order may differ between ranks. Blocks until the other ranks of this machine make the call,
// too.
void end_together(const Communicators& comms) noexcept;

// Aborts communicators, which stops their running kernels. Uses one NCCL group call for all,
// because the abort of a single communicator may wait for the device, where kernels of other
// communicators may wait for missing ranks.
void abort_together(const Communicators& comms) noexcept;

}  // namespace lm::cuda
