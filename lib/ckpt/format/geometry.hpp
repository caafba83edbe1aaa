// SPDX-License-Identifier: Apache-2.0
// Overlap of two regions of one tensor. A region is a box of the global shape and a flat range of
// the box's elements in row-major order. Its elements are stored in that order, without gaps.
#pragma once

#include <algorithm>

#include "base/error.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

struct Region {
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
};

// Returns the region of all elements of a tensor.
inline Region whole(const Shape& shape) {
    Shape start = shape;
    for (int dim = 0; dim < start.rank(); ++dim) start[dim] = 0;
    return {{start, shape}, 0, shape.numel()};
}

// Stores the common part of two boxes in `common`; returns false when the common part is empty.
inline bool intersect(const spec::Box& a, const spec::Box& b, spec::Box& common) {
    LM_CHECK(a.start.rank() == b.start.rank(), "expected boxes of equal rank, got {} and {}",
             a.start.rank(), b.start.rank());
    common = a;
    for (int dim = 0; dim < a.start.rank(); ++dim) {
        common.start[dim] = std::max(a.start[dim], b.start[dim]);
        common.end[dim] = std::min(a.end[dim], b.end[dim]);
        if (common.start[dim] >= common.end[dim]) return false;
    }
    return true;
}

// Calls f(offset_a, offset_b, n) for every run of n elements that is contiguous in both regions.
// offset_a counts from the first stored element of a, offset_b from the first stored element of b;
// both offsets ascend.
template <typename F>
void for_each_common_run(const Region& a, const Region& b, F&& f) {
    spec::Box common;
    if (!intersect(a.box, b.box, common)) return;
    const Shape shape = common.shape();
    const Shape shape_a = a.box.shape();
    const Shape shape_b = b.box.shape();
    // A run covers all trailing dimensions that both boxes hold completely, and the common part of
    // the dimension before these trailing dimensions. `outer` is the number of dimensions that the
    // run does not cover.
    int outer = shape.rank();
    i64 run = 1;
    while (outer > 0) {
        --outer;
        run *= shape[outer];
        if (shape[outer] != shape_a[outer] || shape[outer] != shape_b[outer]) break;
    }
    const auto offset = [&](const Shape& index, const spec::Box& box, const Shape& box_shape) {
        i64 flat = 0;
        for (int dim = 0; dim < index.rank(); ++dim) {
            flat = flat * box_shape[dim] + index[dim] - box.start[dim];
        }
        return flat;
    };
    Shape index = common.start;
    while (true) {
        // Clips the run [0, run) to the flat ranges of a and b.
        const i64 at_a = offset(index, a.box, shape_a);
        const i64 at_b = offset(index, b.box, shape_b);
        const i64 low = std::max({i64{0}, a.flat_begin - at_a, b.flat_begin - at_b});
        const i64 high = std::min({run, a.flat_end - at_a, b.flat_end - at_b});
        if (low < high) f(at_a + low - a.flat_begin, at_b + low - b.flat_begin, high - low);
        int dim = outer - 1;
        while (dim >= 0 && ++index[dim] == common.end[dim]) {
            index[dim] = common.start[dim];
            --dim;
        }
        if (dim < 0) return;
    }
}

}  // namespace lm::ckpt
