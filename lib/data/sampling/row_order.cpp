// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/row_order.hpp"

#include <vector>

#include "base/error.hpp"

namespace lm::data {

void order_rows(std::span<const i32> ids, i64 n_ids, std::span<i32> order) {
    LM_CHECK(ids.size() == order.size(), "expected an order of {} rows, got {}", ids.size(),
             order.size());
    const auto group_of = [n_ids](i32 id) {
        return static_cast<size_t>(id >= 0 && id < n_ids ? id : n_ids);
    };
    thread_local std::vector<i32>
        next;  // first the size of each group, later the place of the group's next row
    next.assign(static_cast<size_t>(n_ids) + 1, 0);
    for (const i32 id : ids) ++next[group_of(id)];
    i32 begin = 0;
    for (i32& group : next) {
        const i32 size = group;
        group = begin;
        begin += size;
    }
    for (size_t row = 0; row < ids.size(); ++row) {
        order[static_cast<size_t>(next[group_of(ids[row])]++)] = static_cast<i32>(row);
    }
}

void cut_order(std::span<const i32> order, i64 full_length, i64 length, std::span<i32> cut) {
    size_t n = 0;
    for (const i32 row : order) {
        const i64 sample = row / full_length;
        const i64 place = row % full_length;
        if (place < length) cut[n++] = static_cast<i32>(sample * length + place);
    }
    LM_CHECK(n == cut.size(), "expected {} rows, got {}", cut.size(), n);
}

}  // namespace lm::data
