// SPDX-License-Identifier: Apache-2.0
// Ranges of elements [begin, end) in a flat buffer, and sorted lists of disjoint ranges.
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.hpp"

namespace lm {

struct Range {
    i64 begin = 0;
    i64 end = 0;
    i64 size() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
};

// Returns the ranges of the elements that are in both lists. Does not join adjacent ranges.
inline std::vector<Range> intersection(const std::vector<Range>& a, const std::vector<Range>& b) {
    std::vector<Range> common;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size(); ++(a[i].end < b[j].end ? i : j)) {
        const Range both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
        if (both.begin < both.end) common.push_back(both);
    }
    return common;
}

// Appends `range`, which starts at or after the end of the last range. Joins the two ranges when
// they are adjacent.
inline void append(std::vector<Range>& ranges, const Range& range) {
    if (!ranges.empty() && ranges.back().end == range.begin) {
        ranges.back().end = range.end;
    } else {
        ranges.push_back(range);
    }
}

inline i64 total_size(const std::vector<Range>& ranges) {
    i64 total = 0;
    for (const Range& range : ranges) total += range.size();
    return total;
}

}  // namespace lm
