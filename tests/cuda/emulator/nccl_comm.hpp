// SPDX-License-Identifier: Apache-2.0
// A rank's communicator. Like NCCL, it makes the connections of an algorithm in the first call that
// uses it. This call returns only after the other members have made the corresponding call. NCCL
// chooses the algorithm by kind, type and size. Here each kind and type has one algorithm for each
// range of sizes from a power of two to the next.
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
    int64_t place = 0;  // number in the stream
    bool posted = false;
    bool complete = false;
    Bytes result;
};

// Destroyed communicators stay in memory, because work in streams may still refer to them.
ncclComm_t new_comm(int rank, int size, const std::vector<std::string>& hubs);
bool lives(ncclComm_t comm);
bool forget(ncclComm_t comm);  // returns false when it was destroyed before

}  // namespace emulator

struct ncclComm {
    using Bytes = emulator::Bytes;
    using Frame = emulator::Frame;
    using Started = emulator::Started;
    using Key = std::pair<uint32_t, uint64_t>;  // channel, number

    int rank = 0;
    int size = 0;
    std::mutex mutex;
    std::condition_variable changed;
    ncclResult_t state = ncclSuccess;
    bool joined = false;
    bool ended = false;
    std::string error;
    cudaStream_t stream = nullptr;  // stream of the first operation
    int socket = -1;
    std::vector<int> others;                 // sockets to the other hubs, used only to join
    std::map<uint32_t, uint64_t> n_started;  // by channel
    std::set<Key> connected;                 // channel and algorithm
    std::map<Key, std::shared_ptr<Started>> under_way;
    std::set<Key> hurried;  // operations that other members wait for
    std::mutex sending;
    std::thread reader, runner;

    // Joins all hubs; the first one carries the data.
    void join(const std::vector<std::string>& hubs);
    ncclResult_t wait_until_joined();
    void leave();
    bool tell(const Frame& frame, const Bytes& bytes);
    ncclResult_t start(std::shared_ptr<Started> started);
    // Sends this rank's part, once, in stream order.
    void post(Started& started);

  private:
    cudaError_t finish(Started& started);
    // Connects in the caller's thread, like NCCL.
    void connect(const Started& started);

    // read() and run_hurried() run in threads of their own. They do the work of a GPU while the
    // host continues.
    void read();
    // Runs the stream up to an operation that other members wait for.
    void run_hurried();
};
