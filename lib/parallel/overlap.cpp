// SPDX-License-Identifier: Apache-2.0
#include "parallel/overlap.hpp"

#include <algorithm>

namespace lm::parallel {

Overlap::Overlap(const spec::ModelConfig& config, const spec::RankLayout& layout,
                 DataParallel& data)
    : data_(data) {
    // Backward visits the units from the highest to the lowest. After a unit, only gradients of
    // lower units are incomplete, so all gradients after the last tensor of a lower unit are
    // complete.
    for (i64 unit = 0; unit <= spec::head_unit(config); ++unit) {
        i64 read = 0;
        i64 pending = 0;
        for (const spec::LocalTensor& tensor : layout.tensors) {
            if (tensor.unit == unit) read = std::max(read, tensor.end());
            if (tensor.unit < unit) pending = std::max(pending, tensor.end());
        }
        weights_end_.push_back(read);
        gradients_from_.push_back(pending);
    }
}

void Overlap::before_forward(i64 unit) {
    data_.wait_weights(weights_end_[static_cast<size_t>(unit)]);
    data_.poll();
}

void Overlap::after_backward(i64 unit) {
    data_.gradients_final(gradients_from_[static_cast<size_t>(unit)]);
}

}  // namespace lm::parallel
