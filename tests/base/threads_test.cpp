// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task runs once on any number of threads; exceptions of tasks; many short
// runs.
#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/threads.hpp"
#include "support/catch.hpp"

using namespace lm;

TEST_CASE("every task runs exactly once on any number of threads") {
    const int n_threads = GENERATE(1, 2, 3, 8, 33);
    ThreadPool pool(n_threads);
    CHECK(pool.size() == n_threads);
    for (i64 n_tasks : {i64{0}, i64{1}, i64{2}, i64{7}, i64{1000}}) {
        std::vector<int> runs(static_cast<size_t>(n_tasks));
        std::atomic<bool> right_worker = true;
        pool.run(n_tasks, [&](i64 task, int worker) {
            if (worker < 0 || worker >= n_threads) right_worker = false;
            ++runs[static_cast<size_t>(task)];
        });
        CHECK(right_worker);
        CHECK(runs == std::vector<int>(runs.size(), 1));
    }
}

TEST_CASE("run_ranges covers the range in parts of the grain") {
    ThreadPool pool(3);
    for (i64 n : {i64{0}, i64{1}, i64{99}, i64{100}, i64{101}}) {
        std::vector<int> hits(static_cast<size_t>(n));
        std::atomic<bool> right_cut = true;
        pool.run_ranges(n, 10, [&](i64 begin, i64 end, int) {
            if (begin % 10 != 0 || (end - begin != 10 && end != n)) right_cut = false;
            for (i64 i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        CHECK(right_cut);
        CHECK(hits == std::vector<int>(hits.size(), 1));
    }
}

TEST_CASE("an exception of a task is rethrown after all tasks have ended") {
    const int n_threads = GENERATE(1, 2, 5);
    ThreadPool pool(n_threads);
    std::atomic<int> ended = 0;
    const auto work = [&](i64 task, int) {
        if (task == 3) throw std::runtime_error("task 3");
        ++ended;
    };
    CHECK_THROWS_WITH(pool.run(20, work), "task 3");
    CHECK(ended == 19);
    ended = 0;
    pool.run(3, work);  // the pool can be used after an exception
    CHECK(ended == 3);
}

TEST_CASE("many short runs in sequence") {
    ThreadPool pool(4);
    i64 total = 0;
    std::atomic<i64> sum = 0;
    for (int run = 0; run < 5000; ++run) {
        const i64 n_tasks = run % 7;
        pool.run(n_tasks, [&](i64 task, int) { sum += task; });
        total += n_tasks * (n_tasks - 1) / 2;
        REQUIRE(sum == total);
    }
}

TEST_CASE("plain writes of the tasks are visible after the run") {
    ThreadPool pool(4);
    std::vector<i64> values(64, 0);
    for (int run = 0; run < 500; ++run) {
        pool.run(64, [&](i64 task, int) { values[static_cast<size_t>(task)] += task; });
        for (i64& value : values) value += 1;
    }
    for (i64 task = 0; task < 64; ++task)
        CHECK(values[static_cast<size_t>(task)] == 500 * (task + 1));
}

TEST_CASE("many pools are created and destroyed") {
    for (int i = 0; i < 200; ++i) {
        ThreadPool pool(1 + i % 5);
        if (i % 2 == 0) pool.run(3, [](i64, int) {});
    }
}

TEST_CASE("on_start runs on every worker except the caller") {
    static std::atomic<int> started = 0;
    started = 0;
    {
        ThreadPool pool(5, [] { ++started; });
    }
    CHECK(started == 4);
}

TEST_CASE("at least one core is available") {
    CHECK(available_cores() >= 1);
}
