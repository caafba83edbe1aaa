// SPDX-License-Identifier: Apache-2.0
#include "preprocess/memory_budget.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "support/catch.hpp"

using namespace lm;
using lm::preprocess::MemoryBudget;
using Turn = lm::preprocess::MemoryBudget::Turn;

namespace {

const int a = 0, b = 0;  // two pipelines

MemoryBudget::Turn later() {
    return Turn::later;
}
MemoryBudget::Turn next() {
    return Turn::next;
}

// Runs `acquire` in a thread; returned() is whether it returns within 50 ms.
class Attempt {
  public:
    template <typename Acquire>
    explicit Attempt(Acquire acquire)
        : thread_([this, acquire] {
              result_ = acquire();
              returned_ = true;
          }) {}
    ~Attempt() { thread_.join(); }
    bool returned() const {
        for (int i = 0; i < 50 && !returned_; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return returned_;
    }
    bool result() {
        while (!returned_) std::this_thread::yield();
        return result_;
    }

  private:
    std::atomic<bool> returned_{false}, result_{false};
    std::thread thread_;
};

}  // namespace

TEST_CASE("a request within the budget is granted at once") {
    MemoryBudget budget(100);
    CHECK(budget.acquire(&a, 60, later));
    CHECK(budget.acquire(&b, 40, later));
}

TEST_CASE("a chunk that others precede waits for released memory") {
    MemoryBudget budget(100);
    REQUIRE(budget.acquire(&a, 60, later));
    Attempt attempt([&] { return budget.acquire(&b, 50, later); });
    CHECK_FALSE(attempt.returned());
    budget.release(60);
    CHECK(attempt.result());
}

TEST_CASE("the next chunk may exceed the budget, in one pipeline at a time") {
    MemoryBudget budget(100);
    CHECK(budget.acquire(&a, 300, next));
    CHECK(budget.acquire(&a, 300, next));
    Attempt other([&] { return budget.acquire(&b, 1, next); });
    CHECK_FALSE(other.returned());
    budget.release(500);  // 100 are left: the limit
    CHECK(other.result());
}

TEST_CASE("a pipeline that becomes the next one is woken, and so is one that stops") {
    MemoryBudget budget(100);
    budget.add(100);
    std::atomic<Turn> turn{Turn::later};
    {
        Attempt attempt([&] { return budget.acquire(&a, 10, [&] { return turn.load(); }); });
        CHECK_FALSE(attempt.returned());
        turn = Turn::next;
        budget.wake();
        CHECK(attempt.result());
    }
    turn = Turn::later;
    Attempt attempt([&] { return budget.acquire(&b, 10, [&] { return turn.load(); }); });
    CHECK_FALSE(attempt.returned());
    turn = Turn::stopped;
    budget.wake();
    CHECK_FALSE(attempt.result());
}
