// SPDX-License-Identifier: Apache-2.0
#include "ckpt/geometry.hpp"

#include "base/error.hpp"

namespace lm::ckpt {

bool intersect(const spec::Box& a, const spec::Box& b, spec::Box& common) {
    LM_CHECK(a.start.rank() == b.start.rank(), "boxes of different rank");
    common = a;
    for (int dim = 0; dim < a.start.rank(); ++dim) {
        common.start[dim] = std::max(a.start[dim], b.start[dim]);
        common.end[dim] = std::min(a.end[dim], b.end[dim]);
        if (common.start[dim] >= common.end[dim]) return false;
    }
    return true;
}

}  // namespace lm::ckpt
