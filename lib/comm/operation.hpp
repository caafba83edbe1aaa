// SPDX-License-Identifier: Apache-2.0
// One operation of a group as its backends see it: what, of which type, how many elements, with
// whom, from and to where; and its text in messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/view.hpp"

namespace lm::comm {

enum class Reduction : u8 { sum, max };

enum class Kind : u8 {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    barrier,
    split,
    send,
    receive
};
std::string_view name_of(Kind kind);
std::string_view name_of(Reduction reduction);

inline bool is_message(Kind kind) {
    return kind == Kind::send || kind == Kind::receive;
}

struct Operation {
    Kind kind = Kind::barrier;
    Reduction reduction = Reduction::sum;
    DType dtype = DType::uint8;
    i64 n = 0;      // elements: of x, or of one part of reduce_scatter and all_gather
    int peer = -1;  // root of a broadcast, receiver of a send, sender of a receive
    const void* in = nullptr;
    void* out = nullptr;

    i64 bytes() const { return n * size_of(dtype); }
    // What all members must agree on; for a send and its receive the type and number of elements.
    bool agrees_with(const Operation& other) const;
    std::string str() const;  // "all_reduce(sum, 100 x fp32)", "broadcast(3 x int64 from rank 2)"
};

// "rank 3", "ranks 3, 7-12 of 64": ascending numbers out of n_all; runs are put together, and after
// ten of them the rest is counted.
std::string ranks_text(const std::vector<int>& ranks, int n_all);

}  // namespace lm::comm
