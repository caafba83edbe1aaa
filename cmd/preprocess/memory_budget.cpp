// SPDX-License-Identifier: Apache-2.0
#include "memory_budget.hpp"

namespace lm::preprocess {

bool MemoryBudget::take(const void* pipeline, i64 bytes,
                        const std::function<Standing()>& standing) {
    std::unique_lock lock(mutex_);
    Standing now = Standing::waits;
    changed_.wait(lock, [&] {
        now = standing();
        if (now == Standing::stopped || taken_ + bytes <= limit_) return true;
        return now == Standing::is_next && (over_ == nullptr || over_ == pipeline);
    });
    if (now == Standing::stopped) return false;
    taken_ += bytes;
    if (taken_ > limit_) over_ = pipeline;
    return true;
}

void MemoryBudget::add(i64 bytes) {
    const std::lock_guard lock(mutex_);
    taken_ += bytes;
}

void MemoryBudget::give_back(i64 bytes) {
    {
        const std::lock_guard lock(mutex_);
        taken_ -= bytes;
        if (taken_ <= limit_) over_ = nullptr;
    }
    changed_.notify_all();
}

void MemoryBudget::wake() {
    give_back(0);
}

}  // namespace lm::preprocess
