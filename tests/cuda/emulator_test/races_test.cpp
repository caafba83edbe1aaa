// SPDX-License-Identifier: Apache-2.0
// ThreadSanitizer finds planted races inside a block, and none where CUDA orders the accesses. This
// is a separate program, compiled with -fsanitize=thread (emulator/races.hpp).
#include <functional>

#include "block.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/shared.cuh"
#include "memory.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cuda;

namespace {

int n_reports = 0;

// Returns the memory of one test. ThreadSanitizer reports an address once, so tests share none.
constexpr int of_test = 256;
int* memory_of(int test) {
    return dynamic_shared<int>() + of_test * test;
}

// Returns the number of races that are reported while the kernel runs on two blocks.
int races_of(unsigned threads, const std::function<void()>& kernel) {
    const int before = n_reports;
    const emulator::Window window;
    CHECK(emulator::run_grid(dim3(2), dim3(threads), 8 * of_test * sizeof(int), kernel).problem ==
          "");
    return n_reports - before;
}

int thread() {
    return static_cast<int>(threadIdx.x);
}

}  // namespace

extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
    return "exitcode=0";
}

// Called by ThreadSanitizer for each report.
extern "C" void __tsan_on_report(void*);
extern "C" void __tsan_on_report(void*) {
    ++n_reports;
}

TEST_CASE("a missing __syncthreads() is a race between warps") {
    for (const bool barrier : {true, false}) {
        const int found = races_of(64, [barrier] {
            int* const x = memory_of(0);
            x[thread()] = thread();
            if (barrier) __syncthreads();
            volatile int other = x[63 - thread()];
            (void)other;
        });
        CHECK((found > 0) == !barrier);
    }
}

TEST_CASE("a missing __syncwarp() is a race between lanes, which a shuffle does not order") {
    for (const bool barrier : {true, false}) {
        const int found = races_of(32, [barrier] {
            int* const x = memory_of(1);
            x[thread()] = thread();
            (void)__shfl_xor_sync(all_lanes, thread(), 1);
            if (barrier) __syncwarp();
            volatile int other = x[31 - thread()];
            (void)other;
        });
        CHECK((found > 0) == !barrier);
    }
}

TEST_CASE("a wait for asynchronous copies orders only the copies of its own thread") {
    static int source[4 * 64];
    for (const bool barrier : {true, false}) {
        const int found = races_of(64, [barrier] {
            int* const x = memory_of(2);
            copy_async_16(x + 4 * thread(), source + 4 * thread(), 16);
            commit_copies();
            wait_for_copies<0>();
            if (barrier) __syncthreads();
            volatile int other = x[4 * (63 - thread())];
            (void)other;
        });
        CHECK((found > 0) == !barrier);
    }
}

TEST_CASE("two barriers in turn: writes after a read need the second one") {
    for (const bool second : {true, false}) {
        const int found = races_of(96, [second] {
            int* const x = memory_of(3);
            for (int round = 0; round < 3; ++round) {
                x[thread()] = round;
                __syncthreads();
                volatile int other = x[95 - thread()];
                (void)other;
                if (second) __syncthreads();
            }
        });
        CHECK((found > 0) == !second);
    }
}

TEST_CASE("reductions and atomics have no race") {
    CHECK(races_of(96, [] {
              int* const count = memory_of(4);
              if (thread() == 0) *count = 0;
              __syncthreads();
              atomicAdd(count, 1);
              for (int i = 0; i < 3; ++i) {
                  volatile int total = block_reduce<96, Add>(thread());
                  (void)total;
              }
          }) == 0);
}
