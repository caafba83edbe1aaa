// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/world.hpp"

#include <thread>

#include "base/error.hpp"
#include "base/threads.hpp"

namespace lm::comm {
namespace {

// A short spin saves two system calls (futex wait and wake), but only when every rank has a core of
// its own. Otherwise the spin keeps the awaited rank from running.
constexpr int spins_with_own_core = 2000;

}  // namespace

u64 Bell::rings() {
    const std::lock_guard lock(mutex_);
    return rings_;
}

void Bell::ring() {
    {
        const std::lock_guard lock(mutex_);
        ++rings_;
    }
    rung_.notify_one();
}

bool Bell::wait(u64 seen, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return rung_.wait_until(lock, deadline, [&] { return rings_ != seen; });
}

ThreadsWorld::ThreadsWorld(int n_ranks, double timeout_s)
    : timeout_s_(timeout_s),
      spins_(n_ranks <= available_cores() ? spins_with_own_core : 0),
      bells_(static_cast<size_t>(n_ranks)),
      ended_(static_cast<size_t>(n_ranks)) {}

void ThreadsWorld::ring_all() {
    for (Bell& bell : bells_) bell.ring();
}

void ThreadsWorld::fail(const std::string& reason, std::exception_ptr exception) noexcept {
    {
        const std::lock_guard lock(failure_mutex_);
        if (exception_) return;
        exception_ = std::move(exception);
        reason_ = reason;
        failed_.store(true);
    }
    ring_all();
}

void ThreadsWorld::throw_failure() {
    drain();
    const std::lock_guard lock(failure_mutex_);
    throw Error(Exit::failure, reason_);
}

std::exception_ptr ThreadsWorld::first_exception() {
    const std::lock_guard lock(failure_mutex_);
    return exception_;
}

void ThreadsWorld::rank_ended(int rank) {
    ended_[static_cast<size_t>(rank)].store(true);
    any_ended_.store(true);
    ring_all();
}

// Increments n_inside_ before it checks failed_. So when another thread calls fail() and then
// drain(), either drain() sees this thread inside, or this thread sees the failure. If failed_ were
// checked first, neither might see the other.
bool ThreadsWorld::enter() {
    n_inside_.fetch_add(1);
    if (!failed()) return true;
    leave();
    return false;
}

void ThreadsWorld::drain() noexcept {
    while (n_inside_.load() != 0) std::this_thread::yield();
}

}  // namespace lm::comm
