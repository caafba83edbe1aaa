// SPDX-License-Identifier: Apache-2.0
#include "io/ordered_blocks.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.hpp"

namespace lm::io {
namespace {

using Call = std::function<void(i64 i, AlignedBlock& block)>;

// A ring of blocks. Block i is in slot i modulo the number of slots until it is consumed.
class BlockRing {
  public:
    BlockRing(i64 n, int n_threads)
        : n_(n), slots_(static_cast<size_t>(std::min<i64>(n, 2 * n_threads))) {}

    void produce_all(const Call& produce) {
        for (;;) {
            const i64 i = acquire();
            if (i < 0) return;
            try {
                produce(i, slot(i).block);
            } catch (...) {
                return fail(std::current_exception());
            }
            const std::lock_guard lock(mutex_);
            slot(i).full = true;
            changed_.notify_all();
        }
    }

    void consume_all(const Call& consume) {
        for (i64 i = 0; i < n_; ++i) {
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return error_ || slot(i).full; });
                if (error_) return;
            }
            try {
                consume(i, slot(i).block);
            } catch (...) {
                return fail(std::current_exception());
            }
            const std::lock_guard lock(mutex_);
            slot(i).full = false;
            ++n_consumed_;
            changed_.notify_all();
        }
    }

    void fail(const std::exception_ptr& error) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = error;
        changed_.notify_all();
    }

    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

  private:
    struct Slot {
        AlignedBlock block = {};
        bool full = false;
    };

    Slot& slot(i64 i) { return slots_[static_cast<size_t>(i) % slots_.size()]; }

    // Waits until the slot of the next block to produce is free. Returns the number of this block;
    // -1 when no block is left.
    i64 acquire() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
            return error_ || next_ == n_ || next_ < n_consumed_ + std::ssize(slots_);
        });
        return error_ || next_ == n_ ? -1 : next_++;
    }

    const i64 n_;
    std::vector<Slot> slots_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::exception_ptr error_;
    i64 next_ = 0;
    i64 n_consumed_ = 0;
};

}  // namespace

void for_each_block_in_order(i64 n, int n_threads, const Call& produce, const Call& consume) {
    if (n == 0) return;
    BlockRing ring(n, n_threads);
    std::vector<std::thread> threads;
    try {
        for (int i = 0; i < n_threads; ++i) {
            threads.push_back(start_thread([&] { ring.produce_all(produce); }));
        }
    } catch (...) {
        ring.fail(std::current_exception());  // the system could not start a thread
    }
    ring.consume_all(consume);
    for (std::thread& thread : threads) thread.join();
    ring.rethrow();
}

}  // namespace lm::io
