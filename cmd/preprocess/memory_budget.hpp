// SPDX-License-Identifier: Apache-2.0
// The memory that long lines take beyond what every chunk has: one budget for all pipelines of a
// process. A pipeline's next chunk in line may go over it, of one pipeline at a time, so that a
// single document may be larger than the budget and work goes on in any case.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/types.hpp"

namespace lm::preprocess {

class MemoryBudget {
  public:
    explicit MemoryBudget(i64 bytes) : limit_(bytes) {}

    // What a pipeline says of the chunk that asks, under no lock of its own on the caller's side.
    enum class Standing { waits, is_next, stopped };

    // Waits until `pipeline` may have so much more; false when it has been stopped.
    bool take(const void* pipeline, i64 bytes, const std::function<Standing()>& standing);
    // It has been taken already.
    void add(i64 bytes);
    void give_back(i64 bytes);
    // A Standing has changed.
    void wake();

  private:
    const i64 limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    i64 taken_ = 0;
    const void* over_ = nullptr;  // the pipeline that may go over the limit
};

}  // namespace lm::preprocess
