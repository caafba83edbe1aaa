// SPDX-License-Identifier: Apache-2.0
// A zeroed array from mmap, on huge pages if the system provides them. On small pages, random
// accesses to a table spend most of their time in TLB misses.
#pragma once

#include <cstddef>
#include <utility>

namespace lm::text {

namespace detail {
void* map_zeroed(std::size_t bytes);  // throws std::bad_alloc
void unmap(void* address, std::size_t bytes) noexcept;
}  // namespace detail

// T must be a trivial type.
template <typename T>
class HugeArray {
  public:
    explicit HugeArray(std::size_t size)
        : size_(size), data_(static_cast<T*>(detail::map_zeroed(size * sizeof(T)))) {}
    ~HugeArray() {
        if (data_ != nullptr) detail::unmap(data_, size_ * sizeof(T));
    }
    HugeArray(HugeArray&& other) noexcept
        : size_(std::exchange(other.size_, 0)), data_(std::exchange(other.data_, nullptr)) {}
    HugeArray& operator=(HugeArray&& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(data_, other.data_);
        return *this;
    }

    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

  private:
    std::size_t size_;
    T* data_;
};

}  // namespace lm::text
