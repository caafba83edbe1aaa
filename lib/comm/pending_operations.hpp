// SPDX-License-Identifier: Apache-2.0
// The started operations of one rank in one group, by handle: a number that stays unique when its
// place is used again, so that copies of a finished Work are harmless. How many are under way at
// once depends on who comes when: there is room for many from the start, and what grows never
// shrinks.
#pragma once

#include <vector>

#include "base/types.hpp"

namespace lm::comm {

template <typename T>
class PendingOperations {
  public:
    PendingOperations() {
        places_.reserve(first_places);
        free_.reserve(first_places);
    }
    // A place for an operation; its value is what a former one left there.
    i64 open() {
        if (free_.empty()) {
            free_.push_back(places_.size());
            places_.emplace_back();
            free_.reserve(places_.capacity());  // all of them may be closed at once
        }
        Place& place = places_[free_.back()];
        place.handle = ++opened_ * max_places + static_cast<i64>(free_.back());
        free_.pop_back();
        ++n_open_;
        return place.handle;
    }
    // nullptr: finished.
    T* find(i64 handle) {
        const auto index = static_cast<size_t>(handle % max_places);
        if (handle == 0 || index >= places_.size() || places_[index].handle != handle)
            return nullptr;
        return &places_[index].value;
    }
    void close(i64 handle) {
        const auto index = static_cast<size_t>(handle % max_places);
        places_[index].handle = 0;
        free_.push_back(index);
        --n_open_;
    }
    i64 n_open() const { return n_open_; }

  private:
    static constexpr i64 max_places = i64{1} << 20;
    static constexpr size_t first_places = 64;
    struct Place {
        i64 handle = 0;
        T value{};
    };
    std::vector<Place> places_;
    std::vector<size_t> free_;
    i64 opened_ = 0;
    i64 n_open_ = 0;
};

}  // namespace lm::comm
