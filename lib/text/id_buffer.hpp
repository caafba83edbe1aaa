// SPDX-License-Identifier: Apache-2.0
// Ids one behind the other, all of 16 or all of 32 bits, in memory that grows as they come.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/types.hpp"

namespace lm::text {

class IdBuffer {
  public:
    explicit IdBuffer(bool wide) : wide_(wide) {}  // 32 bits

    bool wide() const { return wide_; }
    i64 size() const { return static_cast<i64>(used_ / width()); }
    size_t capacity() const { return capacity_; }  // bytes
    std::span<const std::byte> bytes() const { return {bytes_.get(), used_}; }

    // Id is u16 or i32, as wide() says.
    template <typename Id>
    std::span<const Id> ids() const {
        return {reinterpret_cast<const Id*>(bytes_.get()), used_ / sizeof(Id)};
    }

    // Behind the last id, for `n` more; until the next call that is not const. The memory comes
    // from malloc, so it is aligned for any id.
    template <typename Id>
    Id* room(i64 n) {
        reserve(static_cast<size_t>(n) * sizeof(Id));
        return reinterpret_cast<Id*>(bytes_.get() + used_);
    }
    // `n` of those for which room() was asked have been written.
    void add(i64 n) { used_ += static_cast<size_t>(n) * width(); }

    void push(i32 id) {
        reserve(sizeof id);
        if (wide_) {
            std::memcpy(bytes_.get() + used_, &id, sizeof id);
        } else {
            const auto narrow = static_cast<u16>(id);
            std::memcpy(bytes_.get() + used_, &narrow, sizeof narrow);
        }
        add(1);
    }

    void clear() { used_ = 0; }  // the memory stays

  private:
    size_t width() const { return wide_ ? sizeof(i32) : sizeof(u16); }
    void reserve(size_t n_bytes) {
        if (used_ + n_bytes > capacity_) grow(n_bytes);
    }
    void grow(size_t n_bytes);

    bool wide_;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte[], Free> bytes_;
    size_t used_ = 0, capacity_ = 0;
};

}  // namespace lm::text
