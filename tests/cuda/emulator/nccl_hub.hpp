// SPDX-License-Identifier: Apache-2.0
// Where the members of one emulated communicator meet, threads or processes of this machine: a
// thread of the process that made the communicator's id, with a socket to each member. It compares
// what they ask for, computes, and sends everybody its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

enum class FrameType : uint32_t {
    hello,    // member: rank and size
    post,     // member: its part of an exchange
    connect,  // member: the first exchange of a channel, a kind and a size
    waiting,  // member: it can do nothing until this exchange has ended
    joined,   // hub: all have come; to the communicator, or to connect
    result,   // hub: of an exchange
    hurry,    // hub: another member waits for this exchange
    error     // hub: text; the communicator is broken
};
enum class Exchange : uint32_t {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    split,
    message
};

// Exchanges of a channel are numbered from 0: 0 are the collectives, the others messages from one
// member to another.
struct Frame {
    FrameType type = FrameType::hello;
    Exchange exchange = Exchange::all_reduce;
    uint32_t op = 0;
    uint32_t dtype = 0;
    int32_t rank = 0;
    int32_t size = 0;     // of the communicator
    int32_t process = 0;  // of a hello
    int32_t root = 0;
    int32_t color = 0;
    int32_t key = 0;
    uint32_t channel = 0;
    uint64_t number = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;  // that follow
};

// The number of what hubs say when all members have joined.
constexpr uint64_t all_members = UINT64_MAX;

inline uint32_t message_channel(int from, int to, int size) {
    return static_cast<uint32_t>(1 + from * size + to);
}

using Bytes = std::vector<std::byte>;

// False: the other side is gone.
bool send_frame(int socket, Frame frame, const Bytes& bytes);
bool receive_frame(int socket, Frame& frame, Bytes& bytes);

// Starts a hub; members connect to the name.
std::string start_hub();
int connect_to_hub(const std::string& name);  // -1: there is none

// Over `inputs` in the order of ranks, as NCCL's reductions: fmax() for max, which drops NaNs;
// 16-bit sums are rounded at every step.
Bytes reduce(uint32_t dtype, uint32_t op, const std::vector<Bytes>& inputs);
size_t size_of(uint32_t dtype);

}  // namespace emulator
