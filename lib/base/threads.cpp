// SPDX-License-Identifier: Apache-2.0
#include "base/threads.hpp"

#include <sched.h>

#include <cstring>

#include "base/error.hpp"

namespace lm {
namespace {

// A training step starts a few thousand parallel regions. Spinning for microseconds before sleeping
// saves two system calls (futex wait and wake) in each region.
constexpr int spins_before_sleep = 2000;

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Blocks until `value` differs from `old`: spins first, then sleeps in a futex.
template <typename T>
void wait_while_equal(const std::atomic<T>& value, T old) {
    for (int spin = 0; spin < spins_before_sleep; ++spin) {
        if (value.load(std::memory_order_acquire) != old) return;
        pause_briefly();
    }
    value.wait(old, std::memory_order_acquire);
}

void stop_workers(std::vector<std::thread>& workers, std::atomic<bool>& stop,
                  std::atomic<u32>& generation) {
    stop.store(true, std::memory_order_release);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (std::thread& thread : workers) thread.join();
}

}  // namespace

void throw_no_thread(int error) {
    run_error("thread",
              "cannot be created: {}: raise ulimit -u or the pids limit of the cgroup, or use "
              "fewer threads (--workers, --threads)",
              std::strerror(error));
}

ThreadPool::ThreadPool(int n_threads, void (*on_start)()) {
    LM_CHECK(n_threads >= 1, "expected a thread pool of at least 1 thread, got {}", n_threads);
    try {
        for (int worker = 1; worker < n_threads; ++worker) {
            workers_.push_back(start_thread([this, worker, on_start] {
                if (on_start) on_start();
                work(worker);
            }));
        }
    } catch (...) {
        stop_workers(workers_, stop_, generation_);
        throw;
    }
}

ThreadPool::~ThreadPool() {
    stop_workers(workers_, stop_, generation_);
}

void ThreadPool::run(i64 n_tasks, TaskRef task) {
    if (n_tasks <= 0) return;
    // Workers read n_tasks_ and task_ after they load generation_ (acquire), which is stored below
    // (release). All workers have left drain() when run() returns, so the next run() may change
    // n_tasks_ and task_.
    n_tasks_ = n_tasks;
    task_ = &task;
    next_.store(0, std::memory_order_relaxed);
    const bool parallel = n_tasks > 1 && !workers_.empty();
    // busy_ counts the workers that have not left the drain() of this run. It is set before
    // generation_ changes, because afterwards a worker may decrement it at any time.
    if (parallel) {
        busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
    }
    drain(0);
    if (parallel) {
        for (int busy = busy_.load(std::memory_order_acquire); busy != 0;
             busy = busy_.load(std::memory_order_acquire)) {
            wait_while_equal(busy_, busy);
        }
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::drain(int worker) {
    for (i64 task = next_.fetch_add(1); task < n_tasks_; task = next_.fetch_add(1)) {
        try {
            (*task_)(task, worker);
        } catch (...) {
            const std::lock_guard lock(error_mutex_);
            if (!error_) error_ = std::current_exception();
        }
    }
}

void ThreadPool::work(int worker) {
    u32 seen = 0;
    while (true) {
        wait_while_equal(generation_, seen);
        const u32 now = generation_.load(std::memory_order_acquire);
        if (now == seen) continue;
        seen = now;
        if (stop_.load(std::memory_order_acquire)) return;
        drain(worker);
        // With acq_rel, the writes of the tasks happen before run() returns.
        if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
}

int available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return static_cast<int>(std::thread::hardware_concurrency());
    }
    return CPU_COUNT(&set);
}

}  // namespace lm
