// SPDX-License-Identifier: Apache-2.0
// What the rank threads of one run share, whatever their groups: the bell that wakes each of them,
// the first failure, and who has ended. Internal to the threads backend.
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

// Wakes one rank. What it waits for is checked by the rank itself.
class Bell {
  public:
    using Clock = std::chrono::steady_clock;
    u64 rings();
    void ring();
    // Waits for a ring after the first `seen`; false: the deadline came first.
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

    // The first failure of all counts: its text is what every other rank throws, its exception is
    // what the run ends with.
    void fail(const std::string& reason, std::exception_ptr exception) noexcept;
    bool failed() const { return failed_.load(); }
    // Throws Error(failure) with the reason, once no thread works on this rank's memory any more.
    [[noreturn]] void throw_failure();
    // fail() with this rank's own finding, then throws it.
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

    // Around every access to another rank's memory; false: the run has failed, hands off.
    bool enter();
    void leave() { n_inside_.fetch_sub(1); }
    void drain() noexcept;  // waits until no thread is inside; after fail()

    // Blocks rank `rank` until is_done(); on the way calls is_lost() whenever it is woken, which
    // may throw. False: the timeout came first.
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
            const u64 seen = bell.rings();
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
    std::vector<Bell> bells_;
    std::vector<std::atomic<bool>> ended_;
    std::atomic<bool> any_ended_{false};
    std::atomic<bool> failed_{false};
    std::atomic<int> n_inside_{0};
    std::mutex failure_mutex_;
    std::string reason_;
    std::exception_ptr exception_;
};

}  // namespace lm::comm
