// SPDX-License-Identifier: Apache-2.0
// The pending operations of one rank in one group, by handle. The slot of a finished operation is
// reused, but a handle is never reused, so copies of a finished Work are harmless. A rank that is
// ahead of the others has more pending operations. Therefore many slots exist from the start, and
// their number never shrinks, so that a run allocates nothing after its first steps.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::comm {

template <typename T>
class PendingOperations {
  public:
    PendingOperations() {
        slots_.reserve(first_slots);
        free_.reserve(first_slots);
    }
    // Returns the handle of a new operation. The slot keeps the value of its previous operation, so
    // that the vectors of that value keep their memory.
    i64 open() {
        if (free_.empty()) {
            free_.push_back(slots_.size());
            slots_.emplace_back();
            free_.reserve(slots_.capacity());  // close() must not allocate
        }
        Slot& slot = slots_[free_.back()];
        slot.handle = ++n_opened_ * max_slots + static_cast<i64>(free_.back());
        free_.pop_back();
        return slot.handle;
    }
    // Returns the operation, or nullptr when the operation is done.
    T* find(i64 handle) {
        const auto index = static_cast<size_t>(handle % max_slots);
        if (handle == 0 || index >= slots_.size() || slots_[index].handle != handle) return nullptr;
        return &slots_[index].value;
    }
    void close(i64 handle) {
        const auto index = static_cast<size_t>(handle % max_slots);
        slots_[index].handle = 0;
        free_.push_back(index);
    }

  private:
    static constexpr i64 max_slots = i64{1} << 20;  // handle = count * max_slots + slot
    static constexpr size_t first_slots = 64;
    struct Slot {
        i64 handle = 0;  // 0: the slot is free
        T value{};
    };
    std::vector<Slot> slots_;
    std::vector<size_t> free_;
    i64 n_opened_ = 0;
};

}  // namespace lm::comm
