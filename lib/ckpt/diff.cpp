// SPDX-License-Identifier: Apache-2.0
#include "ckpt/diff.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ckpt/geometry.hpp"
#include "ckpt/index.hpp"

namespace lm::ckpt {
namespace {

constexpr i64 chunk_elements = i64{1} << 22;

void compare_values(const Checkpoint& a, const Checkpoint& b, const Shape& shape,
                    TensorDifference& difference) {
    difference.n_elements = shape.numel();
    const Region all = whole(shape);
    std::vector<float> values_a(static_cast<size_t>(std::min(shape.numel(), chunk_elements)));
    std::vector<float> values_b(values_a.size());
    double sum = 0;
    for (i64 begin = 0; begin < shape.numel(); begin += chunk_elements) {
        const i64 end = std::min(begin + chunk_elements, shape.numel());
        const auto read = [&](const Checkpoint& from, std::vector<float>& to) {
            from.load(difference.tensor, difference.kind,
                      {.box = all.box,
                       .flat_begin = begin,
                       .flat_end = end,
                       .dtype = DType::fp32,
                       .data = to.data()});
        };
        read(a, values_a);
        read(b, values_b);
        for (size_t i = 0; i < static_cast<size_t>(end - begin); ++i) {
            if (std::bit_cast<u32>(values_a[i]) == std::bit_cast<u32>(values_b[i])) continue;
            ++difference.n_different;
            const double d = std::abs(double{values_a[i]} - double{values_b[i]});
            // NaN compares false, so a NaN difference replaces `max` and stays.
            if (!(d <= difference.max)) difference.max = std::isnan(difference.max) ? d + NAN : d;
            sum += d * d;
        }
    }
    difference.rms = std::sqrt(sum / static_cast<double>(std::max<i64>(1, shape.numel())));
}

bool holds(const Checkpoint& checkpoint, const TensorInfo& tensor, SliceKind kind) {
    if (kind == SliceKind::master && tensor.dtype == DType::fp32) return true;
    return checkpoint.has(kind);
}

TensorDifference compare(const Checkpoint& a, const Checkpoint& b, const std::string& tensor,
                         SliceKind kind) {
    TensorDifference difference;
    difference.tensor = tensor;
    difference.kind = kind;
    const TensorInfo* in_a = a.find(tensor);
    const TensorInfo* in_b = b.find(tensor);
    const bool has_a = in_a && holds(a, *in_a, kind);
    const bool has_b = in_b && holds(b, *in_b, kind);
    if (!has_a || !has_b) {
        difference.only = "only in " + (has_a ? a : b).path();
    } else if (in_a->shape != in_b->shape) {
        difference.only = "shapes " + in_a->shape.str() + " and " + in_b->shape.str();
    } else {
        compare_values(a, b, in_a->shape, difference);
    }
    return difference;
}

}  // namespace

void diff(const Checkpoint& a, const Checkpoint& b, std::span<const SliceKind> kinds,
          const std::function<void(const TensorDifference&)>& report) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : a.manifest().tensors) names.push_back(tensor.name);
    for (const TensorInfo& tensor : b.manifest().tensors) {
        if (!a.find(tensor.name)) names.push_back(tensor.name);
    }
    for (const std::string& name : names) {
        for (const SliceKind kind : kinds) {
            if (a.has(kind) || b.has(kind)) report(compare(a, b, name, kind));
        }
    }
}

}  // namespace lm::ckpt
