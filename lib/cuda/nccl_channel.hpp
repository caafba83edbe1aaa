// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator, a stream for its operations, and what is under way in it. NCCL runs the
// operations of a communicator one after the other, so what must not wait for each other has
// channels of its own.
//
// Communicators are nonblocking: forming one, and an operation that connects ranks for the first
// time, go on while this rank does other things; what comes behind waits here, in its order, until
// advance() may tell it to NCCL. All members are called under the world's mutex.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/group.hpp"
#include "cuda/cuda_device.hpp"

namespace lm::cuda {

// An operation under way. Its inputs are there when `ready` is reached, its results when `end` is.
struct Flight {
    comm::Operation operation;
    i64 number = -1;  // of the group's collectives; -1: a message
    cudaEvent_t ready = nullptr;
    cudaEvent_t end = nullptr;
    bool recorded = false;  // `end` stands in the stream
    bool complete = false;
    bool held = false;    // by a ticket
    double since_s = -1;  // since when nothing but the other ranks is waited for, as seen by look()
    i64 n_reduced = 0;    // elements, of a maximum in pieces
};

// What is wrong with a channel.
struct Trouble {
    Flight flight;
    std::string text;  // of NCCL; empty: it does not end
    double waited_s = 0;
};

class Channel {
  public:
    // Of `name`'s members; `host` is the group that tells who is missing.
    Channel(CudaDevice& device, std::string name, std::shared_ptr<comm::Group> host, int rank,
            int size);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // One of these begins to form the communicator; formed() is true when that is done.
    void join(const ncclUniqueId& id);
    // By what `id` holds when `exchange` is done.
    void join_after(comm::Work exchange, std::unique_ptr<ncclUniqueId> id);
    void join_part(Channel& parent, int color, int key);
    bool formed();
    // The communicator does nothing in the background.
    bool settled();

    // Behind what the compute stream was told so far; nullptr is never returned.
    Flight* start(const comm::Operation& operation, i64 number);
    void advance();
    bool done(Flight& flight);
    // The ticket is gone.
    void release(Flight& flight);

    // Finds what has ended, and trouble. For the watch, a few times a second.
    std::optional<Trouble> look(double timeout_s);

    // The end, in order: idle() until it is true, begin_end(), ended() until it is true; each on
    // all channels before the next.
    bool idle();
    void begin_end();
    bool ended();
    // The communicator, for abort_together(); this has none any more.
    ncclComm_t take() noexcept { return std::exchange(comm_, nullptr); }

    const std::string& name() const { return name_; }
    comm::Group& host() { return *host_; }
    // NCCL has yet to be told of something.
    bool advances() const { return n_told_ < under_way_.size() || busy_ != nullptr; }

  private:
    bool usable() const { return parent_ == nullptr && comm_ != nullptr && !ending_; }
    Flight* unused();
    void reap();
    bool poll();
    void tell(Flight& flight);
    void tell_maximum(Flight& flight);
    void conclude(Flight& flight);
    bool conclude_maximum(Flight& flight);
    void call(ncclResult_t result, const char* what);
    bool takes_keys(const comm::Operation& operation) const;
    i64 keys_of_turn(const Flight& flight) const;

    CudaDevice& device_;
    std::string name_;
    std::shared_ptr<comm::Group> host_;
    int rank_;
    int size_;
    ncclComm_t comm_ = nullptr;
    Channel* parent_ = nullptr;         // while this is cut from it
    std::unique_ptr<ncclUniqueId> id_;  // while it is on its way
    comm::Work id_exchange_;
    cudaStream_t stream_ = nullptr;
    bool in_progress_ = false;
    bool ending_ = false;
    std::vector<std::unique_ptr<Flight>> flights_;
    std::vector<Flight*> unused_;
    std::deque<Flight*> under_way_;  // in the order of the stream
    size_t n_told_ = 0;              // of those: the first so many are known to NCCL
    Flight* busy_ = nullptr;         // the last of them, while NCCL works on it in the background
    device::Buffer keys_;            // of maxima of 16-bit floats
};

// The end at once: the kernels under way in these communicators stop. As one group, because the end
// of one may wait for the device, where the others' kernels wait for ranks that do not come.
void abort_together(const std::vector<ncclComm_t>& comms) noexcept;

}  // namespace lm::cuda
