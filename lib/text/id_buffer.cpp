// SPDX-License-Identifier: Apache-2.0
#include "text/id_buffer.hpp"

#include <algorithm>

namespace lm::text {

void IdBuffer::grow(size_t n_bytes) {
    capacity_ = std::max(used_ + n_bytes, capacity_ * 2);
    std::unique_ptr<std::byte[]> larger(new std::byte[capacity_]);
    if (used_ > 0) std::memcpy(larger.get(), bytes_.get(), used_);
    bytes_ = std::move(larger);
}

}  // namespace lm::text
