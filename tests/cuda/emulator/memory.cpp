// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "fault.hpp"

namespace emulator {
namespace {

constexpr size_t page = 4096;
constexpr size_t alignment = 256;  // guaranteed by cudaMalloc
constexpr int canary = 0xc5;
// Allocations of this size and more use physical memory only for accessed pages, and are zero
// instead of NaN. Tests of offsets above 2^31 need such allocations.
constexpr size_t sparse_bytes = size_t{1} << 30;

struct Allocation {
    std::byte* pages;    // readable while a window is open
    size_t page_bytes;   // without the guard page at either end
    size_t front_bytes;  // canaries before the data
    size_t bytes;
    std::byte* data() const { return pages + front_bytes; }
    size_t back_bytes() const { return page_bytes - front_bytes - bytes; }
};

size_t up(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

class Memory {
  public:
    static Memory& instance() {
        static Memory memory;
        return memory;
    }

    Memory() { describe_faults_by(describe); }

    // Places the end of the data as near to the guard page as the alignment allows.
    void* allocate(size_t bytes) {
        const std::lock_guard lock(mutex_);
        if (bytes > total() - used_) return nullptr;
        const size_t page_bytes = up(up(bytes, alignment), page);
        void* const raw = mmap(nullptr, page_bytes + 2 * page, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (raw == MAP_FAILED) return nullptr;
        Allocation a{static_cast<std::byte*>(raw) + page, page_bytes,
                     page_bytes - up(bytes, alignment), bytes};
        mprotect(a.pages, page_bytes, PROT_READ | PROT_WRITE);
        madvise(a.pages, page_bytes, MADV_HUGEPAGE);  // fewer pages for mprotect() to change
        std::memset(a.pages, canary, a.front_bytes);
        std::memset(a.data() + bytes, canary, a.back_bytes());
        if (bytes < sparse_bytes) std::memset(a.data(), 0xff, bytes);
        if (n_windows_ == 0) mprotect(a.pages, page_bytes, PROT_NONE);
        used_ += bytes;
        allocations_[a.data()] = a;
        return a.data();
    }

    bool release(void* data) {
        const std::lock_guard lock(mutex_);
        const auto found = allocations_.find(static_cast<std::byte*>(data));
        if (found == allocations_.end()) return false;
        const Allocation a = found->second;
        mprotect(a.pages, a.page_bytes, PROT_READ);
        check_canaries(a);
        munmap(a.pages - page, a.page_bytes + 2 * page);
        used_ -= a.bytes;
        allocations_.erase(found);
        return true;
    }

    bool contains(const void* data, size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto* const at = static_cast<const std::byte*>(data);
        auto next = allocations_.upper_bound(const_cast<std::byte*>(at));
        if (next == allocations_.begin()) return false;
        const Allocation& a = std::prev(next)->second;
        return at >= a.data() && at + bytes <= a.data() + a.bytes;
    }

    void open() {
        const std::lock_guard lock(mutex_);
        if (n_windows_++ == 0) protect(PROT_READ | PROT_WRITE);
    }
    void close() {
        const std::lock_guard lock(mutex_);
        if (--n_windows_ == 0) protect(PROT_NONE);
    }

    size_t used() {
        const std::lock_guard lock(mutex_);
        return used_;
    }
    static size_t total() {
        const char* const text = std::getenv("EMULATED_CUDA_MEMORY");
        return (text != nullptr ? std::strtoull(text, nullptr, 10) : 8192) << 20;
    }

  private:
    void protect(int access) {
        for (const auto& [data, a] : allocations_) mprotect(a.pages, a.page_bytes, access);
    }

    static void check_canaries(const Allocation& a) {
        const auto whole = [](const std::byte* at, size_t n) {
            while (n > 0 && *at == std::byte{canary}) ++at, --n;
            return n == 0;
        };
        if (whole(a.pages, a.front_bytes) && whole(a.data() + a.bytes, a.back_bytes())) return;
        fmt::print(stderr, "emulated CUDA: a write outside of an allocation of {} bytes\n",
                   a.bytes);
        std::abort();
    }

    // Called by the fault handler: does not lock mutex_, which the faulting thread may hold.
    static const char* describe(const void* address) {
        const auto* const at = static_cast<const std::byte*>(address);
        for (const auto& [data, a] : instance().allocations_) {
            if (at >= a.data() && at < a.data() + a.bytes) return "device memory";
            if (at >= a.pages - page && at < a.pages + a.page_bytes + page) {
                return "the guards around device memory";
            }
        }
        return nullptr;
    }

    std::mutex mutex_;
    std::map<std::byte*, Allocation> allocations_;
    size_t used_ = 0;
    int n_windows_ = 0;
};

std::mutex pinned_mutex;
std::map<const std::byte*, size_t> pinned;

}  // namespace

void* allocate_device(size_t bytes) {
    return Memory::instance().allocate(bytes);
}

bool free_device(void* data) {
    return Memory::instance().release(data);
}

bool is_device(const void* data, size_t bytes) {
    return Memory::instance().contains(data, bytes);
}

void fill_device(void* target, int value, size_t bytes) {
    if (value != 0 || bytes < sparse_bytes) {
        std::memset(target, value, bytes);
        return;
    }
    auto* const begin = static_cast<std::byte*>(target);
    auto* const end = begin + bytes;
    auto* const first = reinterpret_cast<std::byte*>(up(reinterpret_cast<uintptr_t>(begin), page));
    auto* const last = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(end) / page * page);
    std::memset(begin, 0, static_cast<size_t>(first - begin));
    madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED);
    std::memset(last, 0, static_cast<size_t>(end - last));
}

void device_memory(size_t& free, size_t& total) {
    total = Memory::total();
    // Memory of other processes and of the driver.
    const char* const taken = std::getenv("EMULATED_CUDA_TAKEN");
    const size_t others = taken != nullptr ? std::strtoull(taken, nullptr, 10) << 20 : 0;
    free = total - std::min(total, Memory::instance().used() + others);
}

void* allocate_pinned(size_t bytes) {
    void* const data = std::aligned_alloc(page, up(bytes, page));
    const std::lock_guard lock(pinned_mutex);
    pinned[static_cast<std::byte*>(data)] = bytes;
    return data;
}

bool free_pinned(void* data) {
    const std::lock_guard lock(pinned_mutex);
    if (pinned.erase(static_cast<std::byte*>(data)) == 0) return false;
    std::free(data);
    return true;
}

bool is_pinned(const void* data) {
    const auto* const at = static_cast<const std::byte*>(data);
    const std::lock_guard lock(pinned_mutex);
    const auto next = pinned.upper_bound(at);
    if (next == pinned.begin()) return false;
    const auto& [begin, bytes] = *std::prev(next);
    return at < begin + bytes;
}

Window::Window() {
    Memory::instance().open();
}

Window::~Window() {
    Memory::instance().close();
}

}  // namespace emulator
