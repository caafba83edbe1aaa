// SPDX-License-Identifier: Apache-2.0
// The hub of an emulated communicator. The members are threads or processes of this machine. The
// hub is a thread in the process that created the communicator's id, and has a socket to each
// member. It compares the members' operations, computes the results, and sends each member its
// part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

enum class FrameType : uint32_t {
    hello,    // member: rank and size
    post,     // member: its part of an exchange
    connect,  // member: it connects for an exchange of a new kind or size
    waiting,  // member: it waits for the end of this exchange
    joined,   // hub: all members have joined the communicator, or called connect
    result,   // hub: the result of an exchange
    hurry,    // hub: another member waits for this exchange
    error     // hub: text; the communicator is broken
};
enum class Exchange : uint32_t { all_reduce, reduce_scatter, all_gather, broadcast, message };

// The exchanges of a channel are numbered from 0. Channel 0 has the collectives, every other
// channel the messages from one member to another.
struct Frame {
    FrameType type = FrameType::hello;
    Exchange exchange = Exchange::all_reduce;
    uint32_t op = 0;
    uint32_t dtype = 0;
    int32_t rank = 0;
    int32_t size = 0;     // number of members
    int32_t process = 0;  // process id, in a hello
    int32_t root = 0;
    uint32_t channel = 0;
    uint64_t number = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;  // number of bytes after the frame
};

// The number of the `joined` frame that is sent when all members have joined.
constexpr uint64_t all_members = UINT64_MAX;

inline uint32_t message_channel(int from, int to, int size) {
    return static_cast<uint32_t>(1 + from * size + to);
}

using Bytes = std::vector<std::byte>;

// Returns false when the other side has closed the connection.
bool send_frame(int socket, Frame frame, const Bytes& bytes);
bool receive_frame(int socket, Frame& frame, Bytes& bytes);

// Starts a hub and returns its name, to which members connect.
std::string start_hub();
int connect_to_hub(const std::string& name);  // -1: no such hub

// Reduces `inputs` in the order of ranks, like NCCL: max is fmax(), which drops NaN; sums of 16-bit
// types are rounded after every addition.
Bytes reduce(uint32_t dtype, uint32_t op, const std::vector<Bytes>& inputs);
size_t size_of(uint32_t dtype);

}  // namespace emulator
