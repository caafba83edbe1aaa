// SPDX-License-Identifier: Apache-2.0
// What ranks that met over TCP send each other by way of rank 0 (tcp/hub.hpp): in the byte order of
// these machines.
#pragma once

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/operation.hpp"
#include "comm/tcp/socket.hpp"

namespace lm::comm {

enum class FrameKind : u32 {
    hello,     // a rank: its host
    post,      // a rank: its part of a collective
    result,    // the hub: of a collective
    message,   // a rank to another one, `peer` of the group
    question,  // a rank to the ranks named in the bytes: where are you? Passed on to each.
    host,      // the hub to the asker: that of each, `from`
    answer,    // one of those to the asker, `to`
    failure,   // a rank, and the hub to all: text; the job is over
    bye        // a rank: nothing follows
};

struct Frame {
    FrameKind kind = FrameKind::hello;
    i32 from = 0;  // among all ranks
    i32 to = 0;    // of a post: which member of the group it comes from
    i32 peer = -1;
    u64 group = 0;
    i64 number = 0;  // of the group's collectives, or of the messages between two of its members
    i64 n = 0;       // elements
    u8 operation = 0, reduction = 0, dtype = 0, code = 0;
    u32 n_bytes = 0;  // that follow
};

using Bytes = std::vector<std::byte>;

inline Operation operation_of(const Frame& frame) {
    return {static_cast<Kind>(frame.operation),
            static_cast<Reduction>(frame.reduction),
            static_cast<DType>(frame.dtype),
            frame.n,
            frame.peer,
            nullptr,
            nullptr};
}

inline Bytes bytes_of_text(const std::string& text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
}
inline std::string text_of_bytes(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A part of a group, its number and its ranks, as runs of (first, step, how many): a group of a
// regular grid of ranks is one run however many it has.
Bytes bytes_of_part(u64 id, const std::vector<int>& ranks);
std::pair<u64, std::vector<int>> part_of_bytes(const Bytes& bytes);

}  // namespace lm::comm
