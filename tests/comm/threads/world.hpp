// SPDX-License-Identifier: Apache-2.0
// The state that the rank threads of one run share across all groups: a bell that wakes each
// thread, the first failure, and which ranks have ended. Internal to the threads backend.
//
// Memory order: all atomics here and in hub.hpp are sequentially consistent. Data that one thread
// writes and another reads is published by a store to an atomic (Collective::ready, pieces_done,
// Message::complete), or guarded by a mutex. Copying, not the atomics, determines the speed of this
// backend.
//
// Failure: a rank that fails may unwind and free memory that other threads copy from. So every
// access to another rank's memory is between enter() and leave(). After fail() has set failed_,
// enter() returns false. drain() waits until no thread is inside. A rank throws, and so frees its
// memory, only after drain().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::comm {

// Wakes one rank. The bell counts its rings, so that a ring between the check of a condition and
// wait() is not lost. To use it, read rings(), check the condition, then wait() for a later ring.
class Bell {
  public:
    using Clock = std::chrono::steady_clock;
    u64 rings();
    void ring();
    // Blocks until the bell has rung more than `seen` times. Returns false at the deadline.
    bool wait(u64 seen, Clock::time_point deadline);

  private:
    std::mutex mutex_;
    std::condition_variable rung_;
    u64 rings_ = 0;
};

class ThreadsWorld {
  public:
    ThreadsWorld(int n_ranks, double timeout_s);

    int size() const { return static_cast<int>(bells_.size()); }
    double timeout_s() const { return timeout_s_; }
    void ring(int rank) { bells_[static_cast<size_t>(rank)].ring(); }
    void ring_all();

    // Records a failure and wakes all ranks. Only the first failure of the run counts. All other
    // ranks throw its reason, and run_ranks() rethrows its exception.
    void fail(const std::string& reason, std::exception_ptr exception) noexcept;
    bool failed() const { return failed_.load(); }
    // Blocks until no thread uses another rank's memory, then throws Error(failure) with the
    // reason.
    [[noreturn]] void throw_failure();
    // Records the error of this rank as the failure of the run, and throws the error.
    template <typename E>
    [[noreturn]] void fail_with(const E& error) {
        fail(error.what(), std::make_exception_ptr(error));
        drain();
        throw error;
    }
    std::exception_ptr first_exception();

    void rank_ended(int rank);
    bool has_ended(int rank) const { return ended_[static_cast<size_t>(rank)].load(); }
    bool any_ended() const { return any_ended_.load(); }

    // Call enter() before and leave() after every access to another rank's memory. After enter()
    // has returned false, because the run has failed, do not access the memory and do not call
    // leave().
    bool enter();
    void leave() { n_inside_.fetch_sub(1); }
    void drain() noexcept;  // blocks until no thread is inside; only after fail()

    // Blocks rank `rank` until is_done() returns true. Each time the rank wakes up after another
    // rank has ended, calls is_lost(), which may throw. Returns false at the timeout. Throws when
    // the run fails.
    template <typename Done, typename Lost>
    bool wait(int rank, Done&& is_done, Lost&& is_lost) {
        for (int spin = 0; spin < spins_; ++spin) {
            if (is_done()) return true;
            pause_briefly();
        }
        Bell& bell = bells_[static_cast<size_t>(rank)];
        const auto deadline =
            Bell::Clock::now() + std::chrono::duration_cast<Bell::Clock::duration>(
                                     std::chrono::duration<double>(timeout_s_));
        while (true) {
            const u64 seen = bell.rings();  // read before the check, see Bell
            if (is_done()) return true;
            if (failed()) throw_failure();
            if (any_ended()) is_lost();
            if (!bell.wait(seen, deadline)) return is_done();
        }
    }

  private:
    static void pause_briefly() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    double timeout_s_;
    int spins_;
    std::vector<Bell> bells_;               // by rank
    std::vector<std::atomic<bool>> ended_;  // by rank: its body has returned
    std::atomic<bool> any_ended_{false};
    std::atomic<bool> failed_{false};  // set under failure_mutex_, after reason_
    std::atomic<int> n_inside_{0};     // threads between enter() and leave()
    std::mutex failure_mutex_;         // guards reason_ and exception_
    std::string reason_;
    std::exception_ptr exception_;
};

}  // namespace lm::comm
