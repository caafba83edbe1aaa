// SPDX-License-Identifier: Apache-2.0
#include "preprocess/memory_budget.hpp"

namespace lm::preprocess {

bool MemoryBudget::acquire(const void* pipeline, i64 bytes, const std::function<Turn()>& turn) {
    std::unique_lock lock(mutex_);
    Turn now = Turn::later;
    changed_.wait(lock, [&] {
        now = turn();
        if (now == Turn::stopped || used_ + bytes <= limit_) return true;
        return now == Turn::next && (exceeding_ == nullptr || exceeding_ == pipeline);
    });
    if (now == Turn::stopped) return false;
    used_ += bytes;
    if (used_ > limit_) exceeding_ = pipeline;
    return true;
}

void MemoryBudget::add(i64 bytes) {
    const std::lock_guard lock(mutex_);
    used_ += bytes;
}

void MemoryBudget::release(i64 bytes) {
    {
        const std::lock_guard lock(mutex_);
        used_ -= bytes;
        if (used_ <= limit_) exceeding_ = nullptr;
    }
    changed_.notify_all();
}

void MemoryBudget::wake() {
    release(0);
}

}  // namespace lm::preprocess
