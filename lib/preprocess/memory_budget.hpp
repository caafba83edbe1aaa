// SPDX-License-Identifier: Apache-2.0
// A budget for the memory that long lines need in addition to the memory of ordinary chunks. All
// pipelines of a process share one budget. One pipeline at a time may exceed the budget, for the
// chunk that it must write next. So a document larger than the budget can be encoded, and no
// pipeline waits forever.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/types.hpp"

namespace lm::preprocess {

class MemoryBudget {
  public:
    explicit MemoryBudget(i64 bytes) : limit_(bytes) {}

    // The state of the chunk for which memory is acquired. later: its pipeline writes other chunks
    // first. next: its pipeline writes this chunk next. stopped: its pipeline was stopped and never
    // writes this chunk.
    enum class Turn { later, next, stopped };

    // Blocks until `pipeline` may allocate `bytes` more. Returns false when the pipeline has been
    // stopped. Calls `turn` with the budget's mutex locked, first at once and then after every
    // wake() and release().
    bool acquire(const void* pipeline, i64 bytes, const std::function<Turn()>& turn);
    // Counts memory that has already been allocated. Never blocks.
    void add(i64 bytes);
    void release(i64 bytes);
    // Must be called when the result of a `turn` may have changed.
    void wake();

  private:
    const i64 limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    i64 used_ = 0;
    const void* exceeding_ = nullptr;  // the pipeline that may exceed the limit
};

}  // namespace lm::preprocess
