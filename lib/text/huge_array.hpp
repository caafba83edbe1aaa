// SPDX-License-Identifier: Apache-2.0
// A zeroed array straight from the system, on huge pages where it grants them: tables that are hit
// at random would otherwise spend their time in page walks.
#pragma once

#include <cstddef>

namespace lm::text {

namespace detail {
void* map_zeroed(std::size_t bytes);  // throws std::bad_alloc
void unmap(void* address, std::size_t bytes) noexcept;
}  // namespace detail

// T is trivial.
template <typename T>
class HugeArray {
  public:
    explicit HugeArray(std::size_t size)
        : size_(size), data_(static_cast<T*>(detail::map_zeroed(size * sizeof(T)))) {}
    ~HugeArray() { detail::unmap(data_, size_ * sizeof(T)); }
    HugeArray(const HugeArray&) = delete;
    HugeArray& operator=(const HugeArray&) = delete;

    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

  private:
    std::size_t size_;
    T* data_;
};

}  // namespace lm::text
