// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator, a stream for its operations, and what is under way in it. NCCL runs the
// operations of a communicator one after the other, so what must not wait for each other has
// channels of its own.
//
// A communicator is joined nonblocking, so that a rank that does not come is noticed and joining
// can be stopped. Operations go through a blocking duplicate of it: a nonblocking one starts a
// thread for each (NCCL 2.28 to 2.30, group.cc, ncclGroupEndInternal: tens of microseconds), a
// blocking one returns when its kernel is in the stream. That waits for no other rank once the
// connections are made, which warm-ups take care of.
//
// All members but the constructor are called under the world's mutex.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "cuda/cuda_device.hpp"

namespace lm::cuda {

// An operation under way. Its inputs are there when `ready` is reached, its results when `end` is.
struct Flight {
    comm::Operation operation;
    i64 number = -1;       // of the group's collectives; -1: a message
    bool warm_up = false;  // makes connections, carries nothing
    cudaEvent_t ready = nullptr;
    cudaEvent_t end = nullptr;
    bool complete = false;
    bool held = false;    // by a ticket
    double since_s = -1;  // since when nothing but the other ranks is waited for, as seen by look()
};

// What is wrong with a channel.
struct Trouble {
    Flight flight;
    std::string text;  // of NCCL; empty: it does not end
    double waited_s = 0;
};

// Communicators that come to their end. Blocking and nonblocking ones must not be in one group of
// NCCL's calls (group.cc, ncclAsyncLaunch).
struct Communicators {
    std::vector<ncclComm_t> formed;   // blocking
    std::vector<ncclComm_t> joining;  // nonblocking
};

class Channel {
  public:
    // Of `name`'s members; `host` is the group that tells who is missing. Of two members, messages
    // go to or from the other, `peer` in `host`; -1: collectives. `most_blocks` of its kernels run
    // at once, each on a multiprocessor that computes no more meanwhile; 0: as many as NCCL likes.
    // Allocates.
    Channel(CudaDevice& device, std::string name, std::shared_ptr<comm::Group> host, int rank,
            int size, int peer, int most_blocks);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // Begins to form the communicator; formed() drives that and is true when it is done.
    // Several ids where nccl_library.hpp says that the library takes them.
    void join(std::vector<ncclUniqueId> ids);
    bool formed();
    // The first operations, which take NCCL's memory and make connections: a small and a large one
    // of each collective, or messages from the first rank of two to the second.
    std::vector<comm::Operation> first_operations() const;
    bool idle();  // all have ended

    // Behind what the compute stream was told so far, and behind another flight. What has no
    // connections yet waits for the other members.
    Flight* start(const comm::Operation& operation, i64 number, const Flight* behind);
    bool done(Flight& flight);
    // The ticket is gone.
    void release(Flight& flight);

    // Finds what has ended, and trouble. For the watch, a few times a second.
    std::optional<Trouble> look(double timeout_s);

    // Hands over the communicators that there are, for their end; this has none any more.
    void take(Communicators& comms);

    const std::string& name() const { return name_; }
    comm::Group& host() { return *host_; }

  private:
    enum class State : u8 { joining, duplicating, leaving, formed };

    Flight* unused();
    void reap();
    bool settled(ncclComm_t comm);
    void tell(const comm::Operation& operation);
    void tell_maximum(const comm::Operation& operation);
    void tell_maximum_in_place(const comm::Operation& operation);
    void check(ncclResult_t result, ncclComm_t comm, const char* what);
    void call(ncclResult_t result, const char* what);

    CudaDevice& device_;
    std::string name_;
    std::shared_ptr<comm::Group> host_;
    int rank_;
    int size_;
    int peer_;
    int most_blocks_;
    State state_ = State::joining;
    ncclComm_t joined_ = nullptr;  // until its duplicate is there
    ncclComm_t comm_ = nullptr;    // the duplicate
    device::Buffer keys_;          // of maxima of 16-bit floats, and what warm_up() sends
    cudaStream_t stream_ = nullptr;
    std::vector<std::unique_ptr<Flight>> flights_;
    std::vector<Flight*> unused_;
    std::deque<Flight*> under_way_;  // in the order of the stream
};

// The orderly end of formed communicators whose operations have ended. As one group, since no two
// ranks need have theirs in the same order. Waits for the ranks of this machine.
void end_together(const Communicators& comms) noexcept;

// The end at once: the kernels under way in these communicators stop. The formed ones as one group,
// because the end of one may wait for the device, where the others' kernels wait for ranks that do
// not come; then those that were joining, which have no kernels.
void abort_together(const Communicators& comms) noexcept;

}  // namespace lm::cuda
