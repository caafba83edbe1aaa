// SPDX-License-Identifier: Apache-2.0
// Compares two checkpoints tensor by tensor, whatever layouts or formats wrote them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "ckpt/format/index.hpp"
#include "ckpt/format/tensor_source.hpp"

namespace lm::ckpt {

struct TensorDifference {
    std::string tensor;
    SliceKind kind;
    std::string only;  // why the tensors cannot be compared: "only in A", "shapes [2] and [3]"; may
                       // be empty
    i64 n_elements = 0;
    i64 n_different = 0;  // elements whose bits differ after conversion to fp32
    double max = 0;       // largest absolute difference
    double relative = 0;  // largest |a - b| / max(|a|, |b|) of an element
    double rms = 0;       // root of the mean square difference
    bool equal() const { return only.empty() && n_different == 0; }
};

// Compares every tensor that `a` or `b` has. Compares each kind of `kinds` that `a` or `b` has.
// Passes the results to `report` in the order of the tensor table of `a`. fp32 weights count as
// their own masters. Reads 4 Mi elements at a time. `progress`, which may be empty, gets the number
// of compared elements and the number of all elements.
void diff(const TensorSource& a, const TensorSource& b, std::span<const SliceKind> kinds,
          const std::function<void(const TensorDifference&)>& report,
          const std::function<void(i64 done, i64 total)>& progress = {});

}  // namespace lm::ckpt
