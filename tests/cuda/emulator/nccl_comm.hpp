// SPDX-License-Identifier: Apache-2.0
// A member of emulated communicators. Connections are made when they are needed first, as NCCL
// makes them for an algorithm, which it picks by kind, type and size: by a call that returns when
// the other members have come to it, too. Here every power of two has an algorithm of its own.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl.h"
#include "nccl_hub.hpp"

namespace emulator {

// One operation of this member.
struct Started {
    Frame frame;
    const void* in = nullptr;
    size_t in_bytes = 0;
    void* out = nullptr;
    cudaStream_t stream = nullptr;
    int64_t place = 0;  // in the stream
    bool posted = false;
    bool complete = false;
    Bytes result;
};

// Communicators stay in memory when they end: what waits in streams still names them.
ncclComm_t new_comm(int rank, int size, const std::vector<std::string>& hubs, bool blocking);
bool lives(ncclComm_t comm);
bool forget(ncclComm_t comm);  // false: it does not live

}  // namespace emulator

struct ncclComm {
    using Bytes = emulator::Bytes;
    using Frame = emulator::Frame;
    using Started = emulator::Started;
    using Key = std::pair<uint32_t, uint64_t>;  // channel, number

    int rank = 0;
    int size = 0;
    bool blocking = false;
    std::mutex mutex;
    std::condition_variable changed;
    ncclResult_t state = ncclInProgress;
    bool joined = false;
    bool ended = false;
    std::string error;
    cudaStream_t stream = nullptr;  // of the first operation
    int socket = -1;
    std::vector<int> others;  // sockets to hubs of which nothing but their having come is wanted
    std::map<uint32_t, uint64_t> n_started;  // by channel
    std::set<Key> connected;                 // channels, and for what
    std::map<Key, std::shared_ptr<Started>> under_way;
    std::set<Key> hurried;  // others wait for these
    struct {
        ncclComm_t* target = nullptr;
        ncclComm_t comm = nullptr;
        bool blocking = false;
    } part;  // of a split: where it goes, and what it is
    std::mutex sending;
    std::thread reader, runner;

    // The first hub carries what is exchanged; all must know all members.
    void join(const std::vector<std::string>& hubs);
    void leave();
    bool tell(const Frame& frame, const Bytes& bytes);
    ncclResult_t start(std::shared_ptr<Started> started);
    // Sends this rank's part. Runs in the stream's order, once.
    void post(Started& started);

  private:
    cudaError_t finish(Started& started);
    // In the caller's thread, as NCCL does it.
    void connect(const Started& started);

    // The GPU's part: what goes on while the host does other things.
    void read();
    // Runs the stream of an operation that others wait for, as a GPU would have done by then.
    void run_hurried();
    // The answer to a split: "RANK SIZE HUB".
    void take_part(const Started& split);
};
