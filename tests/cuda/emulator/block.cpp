// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/kernels/shared.cuh"
#include "fault.hpp"
#include "fiber.hpp"
#include "races.hpp"

__thread uint3 threadIdx;
__thread uint3 blockIdx;
__thread uint3 blockDim;
__thread uint3 gridDim;

namespace emulator {
namespace {

constexpr size_t max_threads = 1024;
constexpr size_t max_shared_bytes = 232448;  // limit for a block on an H100
constexpr int lanes_of_warp = 32;

enum class State { ready, at_barrier, in_warp, done };

struct Thread {
    Fiber fiber;
    State state = State::ready;
    uint3 index{};
    Where where{};
    int n_barriers = 0;      // barriers that the thread has reached in this block
    char arrival = 0;        // event for races.hpp: the thread's work before its last __syncwarp()
    char* joined = nullptr;  // event for races.hpp: the lanes' work before this __syncwarp()
    // Arguments of the warp function in which the thread waits.
    Resolve resolve = nullptr;
    unsigned mask = 0;
    void* data = nullptr;
};

std::string place_of(const Where& where) {
    const std::string file = where.file_name();
    return fmt::format("{}:{} ({})", file.substr(file.rfind('/') + 1), where.line(),
                       where.function_name());
}

class Block {
  public:
    Block() : threads_(max_threads) {
        shared_ = static_cast<std::byte*>(mmap(nullptr, max_shared_bytes + 2 * guard,
                                               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                               -1, 0));
    }

    std::string run_grid(dim3 grid, dim3 block, size_t shared_bytes,
                         const std::function<void()>& thread) {
        body_ = &thread;
        shared_bytes_ = shared_bytes;
        n_threads_ = size_t{block.x} * block.y * block.z;
        gridDim = {grid.x, grid.y, grid.z};
        blockDim = {block.x, block.y, block.z};
        problem_.clear();
        const bool reverse = std::getenv("EMULATED_CUDA_REVERSE") != nullptr;
        const uint64_t n_blocks = uint64_t{grid.x} * grid.y * grid.z;
        for (uint64_t i = 0; i < n_blocks && problem_.empty(); ++i) {
            const uint64_t at = reverse ? n_blocks - 1 - i : i;
            block_ = {static_cast<unsigned>(at % grid.x),
                      static_cast<unsigned>(at / grid.x % grid.y),
                      static_cast<unsigned>(at / grid.x / grid.y)};
            blockIdx = block_;
            run_block(block, reverse);
        }
        return problem_;
    }

    // Returns ThreadSanitizer to the scheduler's fiber after a fault has left the running fiber.
    void recover() const {
        if (scheduler_.sanitizer != nullptr) races::switch_to(scheduler_.sanitizer);
    }

    std::byte* shared() { return shared_ + guard; }
    int lane() const { return static_cast<int>(current_ % lanes_of_warp); }

    void barrier(const Where& where) {
        Thread& me = threads_[current_];
        me.where = where;
        // Alternates between two objects, because a thread may be at the next barrier before
        // another thread has left this barrier.
        char* const order = &barriers_[me.n_barriers++ % 2];
        races::release(order);
        wait(State::at_barrier);
        races::acquire(order);
    }

    // A warp function that also orders memory between its lanes.
    void ordered_collective(Resolve resolve, unsigned mask, void* data, const Where& where) {
        Thread& me = threads_[current_];
        races::release(&me.arrival);
        collective(resolve, mask, data, where);
        races::acquire(me.joined);
    }

    void collective(Resolve resolve, unsigned mask, void* data, const Where& where) {
        Thread& me = threads_[current_];
        if ((mask >> lane() & 1U) == 0) broken("a lane is not in the mask it gives", where);
        me.resolve = resolve;
        me.mask = mask;
        me.data = data;
        me.where = where;
        const size_t first = current_ / lanes_of_warp * lanes_of_warp;
        const int last = lanes_of_warp - 1 - std::countl_zero(mask);
        if (first + static_cast<size_t>(last) >= n_threads_) {
            broken("a mask names a lane that does not exist", where);
        }
        int& n_waiting = n_waiting_[current_ / lanes_of_warp];
        if (n_waiting + 1 < std::popcount(mask)) {
            ++n_waiting;
            return wait(State::in_warp);
        }
        void* lanes[lanes_of_warp] = {};
        for (size_t i = 0; i < lanes_of_warp; ++i) {
            if ((mask >> i & 1U) == 0) continue;
            const Thread& other = threads_[first + i];
            if (first + i == current_) {
                lanes[i] = data;
            } else if (other.state == State::in_warp && other.mask == mask &&
                       other.resolve == resolve) {
                lanes[i] = other.data;
            } else {
                ++n_waiting;
                return wait(State::in_warp);
            }
        }
        resolve(lanes);
        join_lanes(lanes, first);
        for (size_t i = 0; i < lanes_of_warp; ++i) {
            if (!lanes[i] || first + i == current_) continue;
            threads_[first + i].state = State::ready;
            --n_waiting;
        }
    }

    [[noreturn]] void give_up(const std::string& what, const Where& where) {
        const uint3 t = threads_[current_].index;
        problem_ = fmt::format("{}: {}: block ({}, {}, {}), thread ({}, {}, {})", place_of(where),
                               what, block_.x, block_.y, block_.z, t.x, t.y, t.z);
        Fiber::leave_for_good(scheduler_);
    }

  private:
    static constexpr size_t guard = 4096;

    // Called by the last lane that arrives. Makes an event `joined` that follows the work of each
    // lane up to its last __syncwarp(); the lanes then acquire `joined`. Uses a separate fiber, so
    // that `joined` does not also follow later work of the last lane.
    void join_lanes(void* const (&lanes)[lanes_of_warp], size_t first) {
        char* const joined = &joins_[n_joins_++ % joins_.size()];
        void* const runner = races::current_fiber();
        void*& joiner = joiners_[first / lanes_of_warp];
        if (joiner == nullptr) joiner = races::new_fiber();
        races::switch_to(joiner);
        for (size_t i = 0; i < lanes_of_warp; ++i) {
            if (lanes[i]) races::acquire(&threads_[first + i].arrival);
        }
        races::release(joined);
        races::switch_to(runner);
        for (size_t i = 0; i < lanes_of_warp; ++i) {
            if (lanes[i]) threads_[first + i].joined = joined;
        }
    }

    static void thread_main(void* block) {
        Block& b = *static_cast<Block*>(block);
        races::acquire(&b.start_);
        (*b.body_)();
        races::release(&b.end_);
        b.threads_[b.current_].state = State::done;
        Fiber::leave_for_good(b.scheduler_);
    }

    void wait(State state) {
        Thread& me = threads_[current_];
        me.state = state;
        me.fiber.leave(scheduler_);
    }

    void run_block(dim3 block, bool reverse) {
        std::memset(shared_, 0xff, shared_bytes_ + 2 * guard);
        for (size_t i = 0; i < n_threads_; ++i) {
            Thread& thread = threads_[i];
            thread.state = State::ready;
            thread.n_barriers = 0;
            thread.index = {static_cast<unsigned>(i % block.x),
                            static_cast<unsigned>(i / block.x % block.y),
                            static_cast<unsigned>(i / block.x / block.y)};
            thread.fiber.begin(thread_main, this);
        }
        std::fill(std::begin(n_waiting_), std::end(n_waiting_), 0);
        races::release(&start_);
        while (problem_.empty() && run_ready(reverse)) {
        }
        races::acquire(&end_);
        const std::string unfinished = unfinished_copies();
        if (problem_.empty()) problem_ = unfinished;
        if (problem_.empty()) check_shared_guards();
    }

    // Runs each warp as far as possible without the other warps, because with warps in lockstep a
    // missing barrier would not show. Returns false when all threads are done.
    bool run_ready(bool reverse) {
        bool ran = false;
        const size_t n_warps = (n_threads_ + lanes_of_warp - 1) / lanes_of_warp;
        for (size_t i = 0; i < n_warps && problem_.empty(); ++i) {
            const size_t warp = reverse ? n_warps - 1 - i : i;
            while (problem_.empty() && run_warp(warp * lanes_of_warp, reverse)) ran = true;
        }
        if (ran || !problem_.empty()) return true;
        return release_barrier();
    }

    // Runs each ready lane once. Returns false when no lane is ready.
    bool run_warp(size_t first, bool reverse) {
        bool ran = false;
        const size_t n_lanes = std::min<size_t>(lanes_of_warp, n_threads_ - first);
        for (size_t i = 0; i < n_lanes && problem_.empty(); ++i) {
            current_ = first + (reverse ? n_lanes - 1 - i : i);
            Thread& thread = threads_[current_];
            if (thread.state != State::ready) continue;
            ran = true;
            threadIdx = thread.index;
            thread.fiber.enter(scheduler_);
        }
        return ran;
    }

    // Called when no thread is ready: all wait at the barrier, or all are done, or there is an
    // error.
    bool release_barrier() {
        size_t n_waiting = 0;
        size_t n_done = 0;
        for (size_t i = 0; i < n_threads_; ++i) {
            const Thread& thread = threads_[i];
            current_ = i;
            if (thread.state == State::in_warp) {
                report(thread, fmt::format("waits in a warp function for lanes of mask {:#010x} "
                                           "that do not arrive",
                                           thread.mask));
                return true;
            }
            (thread.state == State::done ? n_done : n_waiting) += 1;
        }
        if (n_waiting == 0) return false;
        for (size_t i = 0; i < n_threads_; ++i) {
            Thread& thread = threads_[i];
            if (thread.state != State::at_barrier) continue;
            if (n_done > 0) {
                current_ = i;
                report(thread,
                       fmt::format("waits at __syncthreads() with {} other threads, but {} have "
                                   "returned from the kernel",
                                   n_waiting - 1, n_done));
                return true;
            }
            thread.state = State::ready;
        }
        return true;
    }

    void report(const Thread& thread, const std::string& what) {
        problem_ = fmt::format("{}: {}: block ({}, {}, {}), thread ({}, {}, {})",
                               place_of(thread.where), what, block_.x, block_.y, block_.z,
                               thread.index.x, thread.index.y, thread.index.z);
    }

    void check_shared_guards() {
        const auto intact = [](const std::byte* bytes) {
            return bytes[0] == std::byte{0xff} && std::memcmp(bytes, bytes + 1, guard - 1) == 0;
        };
        if (intact(shared_) && intact(shared_ + guard + shared_bytes_)) return;
        problem_ = fmt::format("a kernel writes outside of its {} bytes of dynamic shared memory",
                               shared_bytes_);
    }

    std::vector<Thread> threads_;
    std::byte* shared_ = nullptr;
    const std::function<void()>* body_ = nullptr;
    size_t n_threads_ = 0;
    size_t shared_bytes_ = 0;
    size_t current_ = 0;
    int n_waiting_[max_threads / lanes_of_warp] = {};  // lanes of each warp in warp functions
    uint3 block_{};
    Fiber::Context scheduler_{};
    std::string problem_;
    // The addresses of these members stand for events in races.hpp.
    char start_ = 0, end_ = 0;
    char barriers_[2] = {};
    std::array<char, 64> joins_{};
    size_t n_joins_ = 0;
    void* joiners_[max_threads / lanes_of_warp] = {};  // a fiber of each warp
};

Block& this_block() {
    static thread_local Block block;
    return block;
}

}  // namespace

GridResult run_grid(dim3 grid, dim3 block, size_t shared_bytes,
                    const std::function<void()>& thread) {
    if (shared_bytes > max_shared_bytes) {
        return {fmt::format("shared memory of a block: expected at most {} bytes, got {}",
                            max_shared_bytes, shared_bytes)};
    }
    std::string problem;
    const bool whole = catching_faults(
        [&] { problem = this_block().run_grid(grid, block, shared_bytes, thread); });
    if (whole) return {problem};
    this_block().recover();
    return {fmt::format("a kernel accesses {}, which is not device memory (block {}, {}, {})",
                        fault_address(), blockIdx.x, blockIdx.y, blockIdx.z),
            true};
}

void block_barrier(const Where& where) {
    this_block().barrier(where);
}

void warp_collective(Resolve resolve, unsigned mask, void* data, const Where& where) {
    this_block().collective(resolve, mask, data, where);
}

void warp_barrier(unsigned mask, const Where& where) {
    Vote vote{true, 0};
    this_block().ordered_collective(Vote::resolve, mask, &vote, where);
}

int lane() {
    return this_block().lane();
}

void broken(const char* what, const Where& where) {
    this_block().give_up(what, where);
}

void* dynamic_shared() {
    return this_block().shared();
}

void Vote::resolve(void* const (&lanes)[32]) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; ++i) {
        if (lanes[i] && static_cast<Vote*>(lanes[i])->predicate) bits |= 1U << i;
    }
    for (void* const lane : lanes) {
        if (lane) static_cast<Vote*>(lane)->ballot = bits;
    }
}

void Match::resolve(void* const (&lanes)[32]) {
    for (void* const lane : lanes) {
        if (!lane) continue;
        Match& mine = *static_cast<Match*>(lane);
        mine.equal = 0;
        for (unsigned i = 0; i < 32; ++i) {
            if (lanes[i] && static_cast<Match*>(lanes[i])->value == mine.value) {
                mine.equal |= 1U << i;
            }
        }
    }
}

unsigned ballot(unsigned mask, bool predicate, const Where& where) {
    Vote vote{predicate, 0};
    warp_collective(Vote::resolve, mask, &vote, where);
    return vote.ballot;
}

}  // namespace emulator
