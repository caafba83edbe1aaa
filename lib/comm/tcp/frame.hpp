// SPDX-License-Identifier: Apache-2.0
// The wire format between the ranks of a job without MPI and the hub on rank 0 (comm/tcp/hub.hpp):
// a Frame, then Frame::n_bytes bytes. The byte order is native, because all hosts are
// little-endian.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "comm/operation.hpp"

namespace lm::comm {

enum class FrameKind : u32 {
    hello = 1,  // rank to hub, the first frame: a Hello
    welcome,    // hub to all ranks: every rank has connected
    post,       // rank to hub: the rank's contribution to a collective
    result,     // hub to each member: the result of a collective
    message,    // rank to rank, through the hub: the data of a send
    question,   // rank to member `peer` of a group (-1: to all others): asks for its status
    host,       // hub to the asking rank: the host of one of the asked ranks
    answer,     // rank to the asking rank `peer`: `number` of started collectives, state
    failure,    // rank to hub, then hub to all: why the job has failed
    bye         // rank to hub: this rank ends without an error; no frame follows
};

struct Frame {
    FrameKind kind = FrameKind::hello;
    i32 from = 0;    // rank in the world
    i32 member = 0;  // number of rank `from` in the group
    i32 peer = -1;   // member: root of a broadcast, receiver of a message; answer: the asking rank
    u64 group = 0;
    i64 number = 0;  // index of the group's collective, or of the message between two members
    i64 n = 0;       // number of elements
    u8 operation = 0, reduction = 0, dtype = 0;
    u8 code = 0;  // exit code of a failure
    u32 n_bytes = 0;
};

using FrameBytes = std::vector<std::byte>;

inline Operation operation_of(const Frame& frame) {
    return {static_cast<OperationKind>(frame.operation),
            static_cast<Reduction>(frame.reduction),
            static_cast<DType>(frame.dtype),
            frame.n,
            frame.peer,
            nullptr,
            nullptr};
}

// The bytes that follow the frame of a hello.
struct Hello {
    char magic[8];
    char token[40];  // digest of the job's token
    i32 size;        // number of ranks of the job
    char host[64];
};

// The bytes of a rank's contribution to a split, and of the split's result.
struct SplitPost {
    i64 color;
    i64 key;
};
struct SplitResult {
    u64 group;  // number of the new group
    i32 rank;   // this rank's number in the new group
    i32 size;
};

template <typename T>
FrameBytes bytes_of(const T& value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    return {begin, begin + sizeof value};
}
inline FrameBytes bytes_of_text(const std::string& text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
}
inline std::string text_of_bytes(const FrameBytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Reads a T from `bytes`. Missing bytes are zeros.
template <typename T>
T read_as(const FrameBytes& bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
}

}  // namespace lm::comm
