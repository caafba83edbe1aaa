// SPDX-License-Identifier: Apache-2.0
// A budget for the memory that long lines take beyond what every chunk has: one budget for all
// pipelines of a process. The chunk that a pipeline must write next may exceed it, in one pipeline
// at a time, so that a document larger than the budget is encoded and no pipeline waits for ever.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/types.hpp"

namespace lm::preprocess {

class MemoryBudget {
  public:
    explicit MemoryBudget(i64 bytes) : limit_(bytes) {}

    // The turn of the chunk that asks for memory: others are written before it, it is written
    // next, or its pipeline has been stopped.
    enum class Turn { later, next, stopped };

    // Blocks until `pipeline` may have `bytes` more; returns false when it has been stopped.
    // `turn` is called under the budget's lock, again after every wake() and release().
    bool acquire(const void* pipeline, i64 bytes, const std::function<Turn()>& turn);
    // Counts memory that has been allocated already; never blocks.
    void add(i64 bytes);
    void release(i64 bytes);
    // To be called when a Turn has changed.
    void wake();

  private:
    const i64 limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    i64 used_ = 0;
    const void* exceeding_ = nullptr;  // the pipeline that may exceed the limit
};

}  // namespace lm::preprocess
