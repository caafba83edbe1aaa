// SPDX-License-Identifier: Apache-2.0
#include "device/view.hpp"

#include "base/error.hpp"

namespace lm::device {

void View::check_dtype(DType wanted) const {
    LM_CHECK(dtype == wanted || (wanted == DType::uint16 && size_of(dtype) == 2),
             "view: expected a dtype of {}, got {}", name_of(wanted), name_of(dtype));
}

View View::reshape(const Shape& new_shape) const {
    LM_CHECK(new_shape.numel() == numel(), "reshape: expected {} elements, got {}", numel(),
             new_shape.str());
    return {data, dtype, new_shape};
}

View View::rows(i64 begin, i64 end) const {
    LM_CHECK(shape.rank() >= 1 && 0 <= begin && begin <= end && end <= shape[0],
             "rows of a view of shape {}: expected a range of dimension 0, got [{}, {})",
             shape.str(), begin, end);
    Shape part = shape;
    part[0] = end - begin;
    const i64 row_bytes = shape[0] == 0 ? 0 : bytes() / shape[0];
    return {static_cast<std::byte*>(data) + begin * row_bytes, dtype, part};
}

}  // namespace lm::device
