// SPDX-License-Identifier: Apache-2.0
// Ids one behind the other, all of 16 or all of 32 bits, in memory that grows as they come, or that
// is handed over whenever so much of it is full.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::text {

class IdBuffer {
  public:
    explicit IdBuffer(bool wide) : wide_(wide) {}  // 32 bits

    bool wide() const { return wide_; }
    i64 size() const { return static_cast<i64>(used_ / width()); }
    i64 count() const { return handed_over_ + size(); }  // since clear()
    size_t capacity() const { return capacity_; }        // bytes
    std::span<const std::byte> bytes() const { return {bytes_.get(), used_}; }

    // Id is u16 or i32, as wide() says.
    template <typename Id>
    std::span<const Id> ids() const {
        return {reinterpret_cast<const Id*>(bytes_.get()), used_ / sizeof(Id)};
    }

    // Whenever `n_bytes` would not be enough `take` is called, and the ids are gone after it. What
    // a single call asks for may be more.
    void hand_over_at(size_t n_bytes, std::function<void()> take) {
        most_ = n_bytes;
        take_ = std::move(take);
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

    // `write` gets room for `most` ids, here and in any buffer of that width or of a larger one,
    // and returns where it stopped.
    template <typename Id, typename Write>
    void append(i64 most, Write write) {
        if (wide_ && sizeof(Id) == sizeof(u16)) {
            i32* const wide = room<i32>(most);
            Id* const begin = reinterpret_cast<Id*>(wide);
            const i64 n = write(begin) - begin;
            widen(wide, n);
            add(n);
        } else {
            LM_CHECK(wide_ == (sizeof(Id) == sizeof(i32)), "ids do not fit 16 bits");
            Id* const begin = room<Id>(most);
            add(write(begin) - begin);
        }
    }

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

    void clear() {  // the memory stays
        used_ = 0;
        handed_over_ = 0;
    }
    void release();  // the memory, too

  private:
    size_t width() const { return wide_ ? sizeof(i32) : sizeof(u16); }
    void reserve(size_t n_bytes) {
        if (used_ + n_bytes > capacity_) grow(n_bytes);
    }
    void grow(size_t n_bytes);
    // `n` ids of 16 bits at the front of the memory become ids of 32, from the back.
    static void widen(i32* ids, i64 n);

    bool wide_;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte[], Free> bytes_;
    size_t used_ = 0, capacity_ = 0;
    i64 handed_over_ = 0;
    size_t most_ = 0;
    std::function<void()> take_;
};

}  // namespace lm::text
