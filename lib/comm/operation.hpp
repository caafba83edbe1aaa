// SPDX-License-Identifier: Apache-2.0
// The description of one operation of a group, for backends, flight recorder and messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/view.hpp"

namespace lm::comm {

enum class Reduction : u8 { sum, max };

enum class OperationKind : u8 {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    barrier,
    split,
    send,
    receive
};
std::string_view name_of(OperationKind kind);
std::string_view name_of(Reduction reduction);

inline bool is_message(OperationKind kind) {
    return kind == OperationKind::send || kind == OperationKind::receive;
}

struct Operation {
    OperationKind kind = OperationKind::barrier;
    Reduction reduction = Reduction::sum;
    DType dtype = DType::uint8;
    i64 n = 0;      // elements of x, or of one part in reduce_scatter and all_gather
    int peer = -1;  // member: root of a broadcast, receiver of a send, sender of a receive
    const void* in = nullptr;  // [n]; reduce_scatter: [size * n]; receive, barrier: none
    void* out = nullptr;       // [n]; all_gather: [size * n]; send, barrier: none

    i64 bytes() const { return n * size_of(dtype); }
    // Returns the bytes of `in` that member `member` of a group of `size` members contributes.
    i64 input_bytes(int member, int size) const;
    // Returns whether the operations of two members match. A send and its receive match when the
    // type and the number of their elements are equal. Other operations match when all their fields
    // except `in` and `out` are equal.
    bool agrees_with(const Operation& other) const;
    std::string str() const;  // "all_reduce(sum, 100 x fp32)", "broadcast(3 x int64 from rank 2)"
};

// The arguments of one member of a split that decide its new group.
struct SplitChoice {
    i64 color = 0;
    i64 key = 0;
};
// Returns the members of each group that a split forms: members of equal color, ordered by key, and
// by member where keys are equal. A member with a negative color is alone in its group.
std::vector<std::vector<int>> split_members(std::span<const SplitChoice> choices);  // by member

// Returns "rank 3 of 64" or "ranks 3, 7-12 of 64". `ranks` are ascending; consecutive ranks form a
// run. The text has at most ten runs and the number of the remaining ranks.
std::string ranks_text(const std::vector<int>& ranks, int n_all);

}  // namespace lm::comm
