// SPDX-License-Identifier: Apache-2.0
// The thread pool of a rank. The division of work into tasks depends only on the shape of the data,
// never on the number of threads, so results have the same bits with any --threads. Threads pick
// tasks dynamically.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace lm {

// A reference to a callable void(i64 task, int worker). It does not own the callable and allocates
// no memory.
class TaskRef {
  public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TaskRef>)
        TaskRef(F&& f)  // NOLINT(google-explicit-constructor): lambdas convert at the call
        : object_(const_cast<void*>(static_cast<const void*>(&f))),
          call_([](void* object, i64 task, int worker) {
              (*static_cast<std::remove_reference_t<F>*>(object))(task, worker);
          }) {}
    void operator()(i64 task, int worker) const { call_(object_, task, worker); }

  private:
    void* object_;
    void (*call_)(void*, i64, int);
};

class ThreadPool {
  public:
    // `n_threads` >= 1 includes the calling thread. `on_start` runs once on every other thread of
    // the pool, to set the state that libraries keep for each thread.
    explicit ThreadPool(int n_threads, void (*on_start)() = nullptr);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls task(i, worker) for every i in [0, n_tasks), with worker in [0, size()), and returns
    // when all calls have returned. If tasks throw, rethrows the first exception. A task must not
    // call run().
    void run(i64 n_tasks, TaskRef task);

    // Divides [0, n) into ranges of length `grain`, of which the last may be shorter, and calls
    // body(begin, end, worker) for each range.
    template <typename Body>
    void run_ranges(i64 n, i64 grain, Body&& body) {
        run(ceil_div(n, grain), [&](i64 task, int worker) {
            const i64 begin = task * grain;
            body(begin, begin + grain < n ? begin + grain : n, worker);
        });
    }

  private:
    void work(int worker);
    void drain(int worker);

    std::vector<std::thread> workers_;
    std::atomic<u32> generation_{0};  // workers wait for it to change
    std::atomic<i64> next_{0};
    std::atomic<int> busy_{0};
    std::atomic<bool> stop_{false};
    i64 n_tasks_ = 0;
    const TaskRef* task_ = nullptr;
    std::mutex error_mutex_;
    std::exception_ptr error_;
};

// Throws the Error(failure) for a thread that the system could not create. `error` is the errno.
// The message names the limits that may be the cause.
[[noreturn]] void throw_no_thread(int error);

// Returns a new thread (or std::jthread) that runs `body`. Calls throw_no_thread() when the system
// cannot create the thread.
template <typename Thread = std::thread, typename Body>
Thread start_thread(Body&& body) {
    try {
        return Thread(std::forward<Body>(body));
    } catch (const std::system_error& failure) {
        throw_no_thread(failure.code().value());
    }
}

// Returns the number of cores in the affinity mask of this process, which is the default of
// --threads.
int available_cores();

}  // namespace lm
