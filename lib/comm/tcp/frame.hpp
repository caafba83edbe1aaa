// SPDX-License-Identifier: Apache-2.0
// The wire format between the ranks of a job without MPI and the hub on rank 0 (comm/tcp/hub.hpp):
// a Frame, then Frame::n_bytes bytes. The byte order is native, because all hosts are
// little-endian.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "comm/operation.hpp"

namespace lm::comm {

enum class FrameKind : u32 {
    hello = 1,  // rank to hub, the first frame: a Hello
    challenge,  // hub to rank, the reply to a hello: a Challenge
    proof,      // rank to hub, the reply to a challenge: a Proof
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

// The largest number of bytes in a contribution, a result or a message, and in another frame.
constexpr u32 max_frame_bytes = u32{1} << 30;
constexpr u32 max_text_bytes = u32{64} << 10;

inline Operation operation_of(const Frame& frame) {
    return {static_cast<OperationKind>(frame.operation),
            static_cast<Reduction>(frame.reduction),
            static_cast<DType>(frame.dtype),
            frame.n,
            frame.peer,
            nullptr,
            nullptr};
}

constexpr char hello_magic[8] = {'l', 'm', '-', 'm', 'e', 'e', 't', '3'};
using Nonce = std::array<u8, 32>;  // random bytes that are used once
using Proof = std::array<u8, 32>;  // comm/tcp/proof.hpp

struct Hello {
    char magic[8];
    Nonce nonce;
    i32 size;  // number of ranks of the job
    char host[64];
};
static_assert(sizeof(Hello) == 108, "a proof covers all bytes, so there is no padding");

struct Challenge {
    Nonce nonce;
    Proof proof;  // the hub knows the token
};

// The bytes of the result of a split. A rank's contribution is a SplitChoice.
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
// Returns the first max_text_bytes of a text.
inline FrameBytes bytes_of_text(const std::string& text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + std::min<size_t>(text.size(), max_text_bytes)};
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
