// SPDX-License-Identifier: Apache-2.0
#include "text/id_buffer.hpp"

#include <algorithm>
#include <new>

namespace lm::text {

// realloc moves the pages of a large block instead of copying them.
void IdBuffer::grow(size_t n_bytes) {
    const size_t capacity = std::max(used_ + n_bytes, capacity_ * 2);
    void* larger = std::realloc(bytes_.get(), capacity);
    if (larger == nullptr) throw std::bad_alloc();
    (void)bytes_.release();
    bytes_.reset(static_cast<std::byte*>(larger));
    capacity_ = capacity;
}

}  // namespace lm::text
